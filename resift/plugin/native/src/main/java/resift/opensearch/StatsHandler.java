// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.List;
import java.util.function.Supplier;

import org.opensearch.core.rest.RestStatus;
import org.opensearch.core.xcontent.ToXContent;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.rest.BytesRestResponse;
import org.opensearch.rest.RestHandler;
import org.opensearch.rest.RestRequest;

/** Answers {@code GET _plugins/_resift/stats} with the counters of the node that receives the request. */
final class StatsHandler extends RestHandler.Wrapper {
    private static final String PATH = "/_plugins/_resift/stats";

    /**
     * @param node      the name of this node
     * @param rewriting supplies the counters
     */
    StatsHandler(String node, Supplier<Rewriting> rewriting) {
        // A lambda need not name the class of the client, which OpenSearch 3 moved to another package.
        super((request, channel, client) -> {
            XContentBuilder json = channel.newBuilder();
            json.startObject().field("node", node);
            rewriting.get().toXContent(json, ToXContent.EMPTY_PARAMS);
            channel.sendResponse(new BytesRestResponse(RestStatus.OK, json.endObject()));
        });
    }

    @Override
    public List<Route> routes() {
        return List.of(new Route(RestRequest.Method.GET, PATH));
    }
}
