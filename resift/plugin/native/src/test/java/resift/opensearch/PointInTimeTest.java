// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.junit.jupiter.api.Test;
import org.opensearch.Version;
import org.opensearch.action.OriginalIndices;
import org.opensearch.action.search.SearchContextId;
import org.opensearch.core.index.shard.ShardId;
import org.opensearch.index.query.TermQueryBuilder;
import org.opensearch.search.SearchPhaseResult;
import org.opensearch.search.SearchShardTarget;
import org.opensearch.search.internal.AliasFilter;
import org.opensearch.search.internal.ShardSearchContextId;

class PointInTimeTest {
    @Test
    void namesTheIndicesOfAllShardsAndClusters() throws IOException {
        List<SearchPhaseResult> shards = List.of(shard("news", 0, null), shard("news", 1, null), shard("archive", 0, "remote"));
        // The filters of aliases follow the shards.
        Map<String, AliasFilter> filters = Map.of("uuid", new AliasFilter(new TermQueryBuilder("owner", "anna"), "mine"));
        String id = SearchContextId.encode(shards, filters, Version.CURRENT);
        assertEquals(Set.of("news", "remote:archive"), PointInTime.indices(id));
    }

    @Test
    void reportsAMalformedId() {
        assertThrows(IOException.class, () -> PointInTime.indices("%"));
        assertThrows(IOException.class, () -> PointInTime.indices("AAAA"));
    }

    private static SearchPhaseResult shard(String index, int number, String cluster) {
        return new SearchPhaseResult() {
            @Override
            public SearchShardTarget getSearchShardTarget() {
                return new SearchShardTarget("node", new ShardId(index, "uuid", number), cluster, OriginalIndices.NONE);
            }

            @Override
            public ShardSearchContextId getContextId() {
                return new ShardSearchContextId("session", number);
            }
        };
    }
}
