// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.Base64;
import java.util.Set;
import java.util.TreeSet;

import org.opensearch.core.common.io.stream.StreamInput;
import org.opensearch.core.index.shard.ShardId;
import org.opensearch.search.internal.ShardSearchContextId;

/** Reads the names of the indices from the id of a point in time. A search of a point in time names no index. */
final class PointInTime {
    private PointInTime() {}

    /**
     * Returns the names of the indices, sorted.
     *
     * <p>{@link org.opensearch.action.search.SearchContextId#decode} is not used. It also reads the filters of aliases, which follow the shards,
     * and needs the parsers of all query clauses for this. Plugins do not get these parsers.
     *
     * @param id the id, as {@code _search/point_in_time} returns it
     * @throws IOException if the id is malformed
     */
    static Set<String> indices(String id) throws IOException {
        byte[] decoded;
        try {
            decoded = Base64.getUrlDecoder().decode(id);
        } catch (IllegalArgumentException e) {
            throw new IOException("malformed id of a point in time", e);
        }
        Set<String> names = new TreeSet<>();
        try (StreamInput in = StreamInput.wrap(decoded)) {
            in.setVersion(in.readVersion());
            for (int shards = in.readVInt(); shards > 0; shards--) {
                String index = new ShardId(in).getIndexName();
                in.readString(); // the node
                String cluster = in.readOptionalString();
                new ShardSearchContextId(in);
                names.add(cluster == null || cluster.isEmpty() ? index : cluster + ":" + index);
            }
        }
        if (names.isEmpty()) {
            throw new IOException("a point in time without indices");
        }
        return names;
    }
}
