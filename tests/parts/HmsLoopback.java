import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashSet;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.jdo.PersistenceManagerFactory;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.ObjectStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.datanucleus.api.jdo.JDOPersistenceManagerFactory;
import org.datanucleus.store.schema.SchemaAwareStoreManager;

/**
 * A real Hive metastore for the tests, made of the jars that come with PySpark.
 *
 * Two things Hive's own main does not do: it listens on 127.0.0.1 only, and it makes all tables of its database before it serves.
 * (Made lazily, on PostgreSQL, they wait for ever for the transaction that needed them.)
 */
public final class HmsLoopback {
    private static final String MODEL = "org.apache.hadoop.hive.metastore.model.";

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        HiveConf conf = new HiveConf(HiveMetaStore.class);
        makeTables(conf);
        HiveMetaStore.HMSHandler handler = new HiveMetaStore.HMSHandler("loopback", conf, false);
        TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", port));
        TThreadPoolServer.Args how = new TThreadPoolServer.Args(socket);
        how.processor(new TSetIpAddressProcessor<>(HiveMetaStore.newRetryingHMSHandler(handler, conf)));
        how.maxWorkerThreads(64);
        new TThreadPoolServer(how).serve();
    }

    private static void makeTables(HiveConf conf) throws Exception {
        ObjectStore store = new ObjectStore();
        store.setConf(conf);
        PersistenceManagerFactory factory = store.getPersistenceManager().getPersistenceManagerFactory();
        SchemaAwareStoreManager manager =
            (SchemaAwareStoreManager) ((JDOPersistenceManagerFactory) factory).getNucleusContext().getStoreManager();
        manager.createSchemaForClasses(modelClasses(), new Properties());
        store.shutdown();
    }

    /** The classes with a table of their own, by the mapping that Hive ships. */
    private static Set<String> modelClasses() throws Exception {
        String mapping = new String(ObjectStore.class.getResourceAsStream("/package.jdo").readAllBytes(), StandardCharsets.UTF_8);
        Set<String> names = new LinkedHashSet<>();
        for (Matcher each = Pattern.compile("<class\\s+name=\"(\\w+)\"([^>]*)>").matcher(mapping); each.find();) {
            if (!each.group(2).contains("embedded-only")) {
                names.add(MODEL + each.group(1));
            }
        }
        return names;
    }
}
