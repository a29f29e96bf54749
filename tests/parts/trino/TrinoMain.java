package compactor;

/** Starts Trino's server; its own main class is in a package that is not in Maven Central. */
public class TrinoMain {
    public static void main(String[] arguments) {
        new io.trino.server.Server().start(arguments[0]);
    }
}
