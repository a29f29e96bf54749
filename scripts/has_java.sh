#!/bin/sh
# Exit 0 and print the java that Spark 3.5 would use here, when it is one that Spark 3.5 runs on: 8, 11 or 17.
# Spark's launcher takes $JAVA_HOME when it is set and the PATH otherwise; so does this.
set -u
if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; else java=$(command -v java) || exit 1; fi
[ -x "$java" ] || exit 1
version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9._]*\).*/\1/p' | head -n 1)
case $version in
    1.8.* | 11 | 11.* | 17 | 17.*) echo "$java" ;;
    *) exit 1 ;;
esac
