package compactor;

/** Starts Trino's server; its own main class is in a package that is not in Maven Central. By name: the compiler may be older than the server. */
public class TrinoMain {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        Object server = Class.forName("io.trino.server.Server").getDeclaredConstructor().newInstance();
        server.getClass().getMethod("start", String.class).invoke(server, arguments[0]);
    }
}
