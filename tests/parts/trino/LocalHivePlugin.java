package compactor;

import com.google.common.collect.ImmutableList;
import com.google.inject.multibindings.MapBinder;
import io.trino.filesystem.FileEntry;
import io.trino.filesystem.FileIterator;
import io.trino.filesystem.Location;
import io.trino.filesystem.TrinoFileSystem;
import io.trino.filesystem.TrinoFileSystemFactory;
import io.trino.filesystem.TrinoInputFile;
import io.trino.filesystem.TrinoOutputFile;
import io.trino.filesystem.local.LocalInputFile;
import io.trino.plugin.hive.HiveConnectorFactory;
import io.trino.spi.Plugin;
import io.trino.spi.connector.ConnectorFactory;
import io.trino.spi.security.ConnectorIdentity;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Trino's Hive connector for files of this machine, read only and without Hadoop (trino-hdfs is not in Maven Central). */
public class LocalHivePlugin implements Plugin {
    @Override
    public Iterable<ConnectorFactory> getConnectorFactories() {
        TrinoFileSystemFactory files = new TrinoFileSystemFactory() {
            @Override
            public TrinoFileSystem create(ConnectorIdentity identity) {
                return new LocalFiles();
            }
        };
        return ImmutableList.of(new HiveConnectorFactory(
            binder -> MapBinder.newMapBinder(binder, String.class, TrinoFileSystemFactory.class).addBinding("file").toInstance(files)));
    }

    /** "file:/a/b" and "file:///a/b" both occur. */
    static Path path(Location location) {
        String path = location.path();
        return Paths.get(path.startsWith("/") ? path : "/" + path);
    }

    static class LocalFiles implements TrinoFileSystem {
        public TrinoInputFile newInputFile(Location file) { return new LocalInputFile(file, path(file)); }
        public TrinoInputFile newInputFile(Location file, long length) { return new LocalInputFile(file, path(file), length); }
        public TrinoOutputFile newOutputFile(Location file) { throw new UnsupportedOperationException("read only"); }
        public void deleteFile(Location file) throws IOException { throw new IOException("read only"); }
        public void deleteDirectory(Location directory) throws IOException { throw new IOException("read only"); }
        public void renameFile(Location from, Location to) throws IOException { throw new IOException("read only"); }
        public void renameDirectory(Location from, Location to) throws IOException { throw new IOException("read only"); }
        public void createDirectory(Location directory) throws IOException { throw new IOException("read only"); }
        public Optional<Boolean> directoryExists(Location directory) { return Optional.of(Files.isDirectory(path(directory))); }
        public Optional<Location> createTemporaryDirectory(Location target, String a, String b) throws IOException { throw new IOException("read only"); }

        public Set<Location> listDirectories(Location directory) throws IOException {
            try (Stream<Path> listed = Files.list(path(directory))) {
                return listed.filter(Files::isDirectory).map(each -> directory.appendPath(each.getFileName() + "/")).collect(Collectors.toSet());
            }
        }

        public FileIterator listFiles(Location location) throws IOException {
            Path directory = path(location);
            if (!Files.isDirectory(directory)) {
                return FileIterator.empty();
            }
            List<FileEntry> entries = new ArrayList<>();
            try (Stream<Path> walked = Files.walk(directory)) {
                for (Path file : (Iterable<Path>) walked.filter(Files::isRegularFile)::iterator) {
                    entries.add(new FileEntry(location.appendPath(directory.relativize(file).toString()), Files.size(file),
                        Files.getLastModifiedTime(file).toInstant(), Optional.empty()));
                }
            }
            Iterator<FileEntry> iterator = entries.iterator();
            return new FileIterator() {
                public boolean hasNext() { return iterator.hasNext(); }
                public FileEntry next() { return iterator.next(); }
            };
        }
    }
}
