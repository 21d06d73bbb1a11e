// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import org.opensearch.ExceptionsHelper;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.action.support.ContextPreservingActionListener;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.common.bytes.BytesReference;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.AbstractProcessor;
import org.opensearch.search.pipeline.PipelineProcessingContext;
import org.opensearch.search.pipeline.SearchRequestProcessor;

/**
 * A request processor that sends searches in a session to the service to have them rewritten. All other searches pass untouched. If the service
 * fails, searches run unchanged.
 */
class RewriteProcessor extends AbstractProcessor implements SearchRequestProcessor {
    static final String TYPE = "resift";
    /** Marks a search that a processor of this type has handled, so that a second processor does not rewrite it again. */
    private static final String HANDLED = "resift.handled";
    private static final String ALL_INDICES = "_all";
    /**
     * The longest request to the service, in bytes. Reading a longer one could take longer than the timeout, and after a few of them the circuit
     * breaker would open for all other searches.
     */
    static final int MAX_BYTES = 512 * 1024;

    private final Rewriting rewriting;
    private final Service service;

    /**
     * @param tag           the name of the processor, or null
     * @param description   the description of the processor, or null
     * @param ignoreFailure whether OpenSearch ignores errors of this processor, which reports none
     * @param rewriting     the parts that all processors of this node share
     * @param service       the settings with which the processor calls the service
     */
    RewriteProcessor(String tag, String description, boolean ignoreFailure, Rewriting rewriting, Service service) {
        super(tag, description, ignoreFailure);
        this.rewriting = rewriting;
        this.service = service;
    }

    @Override
    public String getType() {
        return TYPE;
    }

    @Override
    public SearchRequest processRequest(SearchRequest request) {
        throw new UnsupportedOperationException("this processor is asynchronous");
    }

    @Override
    public void processRequestAsync(SearchRequest request, PipelineProcessingContext context, ActionListener<SearchRequest> listener) {
        if (service.endpoints().isEmpty() || rewriting.isInSession(request.source()) == false || context.getAttribute(HANDLED) != null) {
            listener.onResponse(withoutOptions(request));
            return;
        }
        context.setAttribute(HANDLED, true);
        // The answer arrives on another thread, where the caller's headers and user must be restored.
        ActionListener<SearchRequest> preserving = ContextPreservingActionListener.wrapPreservingContext(listener, rewriting.threadContext());
        rewrite(request).handle((rewritten, error) -> error == null ? finish(request, rewritten) : giveUp(request, error))
            .thenAccept(preserving::onResponse)
            .whenComplete((ignored, error) -> {
                if (error != null) {
                    // The future would swallow an error of the search itself, which OpenSearch must see.
                    ExceptionsHelper.maybeDieOnAnotherThread(error);
                }
            });
    }

    /** Sends the search to the service. The future contains all exceptions, so that this method raises none. */
    private CompletableFuture<Optional<SearchSourceBuilder>> rewrite(SearchRequest request) {
        try {
            return rewriting.client().rewrite(service, body(request), rewriting.patienceMillis(request));
        } catch (RewriteException e) {
            return CompletableFuture.failedFuture(e);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(new RewriteException(Failure.INTERNAL_ERROR, e.toString()));
        }
    }

    /** Counts the answer of the service, and returns the search to run. */
    private SearchRequest finish(SearchRequest request, Optional<SearchSourceBuilder> rewritten) {
        SearchSourceBuilder source = request.source();
        try {
            rewritten.ifPresent(result -> withAggregations(result, source).ext(Sections.ofOthers(source)));
        } catch (RuntimeException e) {
            return giveUp(request, new RewriteException(Failure.UNSUPPORTED, "the rewritten search body: " + e.getMessage()));
        }
        rewriting.stats().answered(rewritten.isPresent());
        return rewritten.map(request::source).orElseGet(() -> withoutOptions(request));
    }

    /** Counts a failure, and returns the original search. */
    private SearchRequest giveUp(SearchRequest request, Throwable error) {
        rewriting.stats().failed(RewriteClient.failureOf(error));
        return withoutOptions(request);
    }

    /** Returns a request without {@code ext.resift}, which nodes without this plugin, and remote clusters, could not read. */
    private static SearchRequest withoutOptions(SearchRequest request) {
        SearchSourceBuilder source = request.source();
        if (source == null || Sections.contain(source, ResiftExt.NAME) == false) {
            return request;
        }
        return request.source(source.shallowCopy().ext(Sections.ofOthers(source)));
    }

    /**
     * Adds the aggregations of the original search to the rewritten search, which has none.
     *
     * <p>The service does not change aggregations, so they are not sent. OpenSearch would also write some of them without all of their options,
     * such as the offset of dates in a composite aggregation.
     */
    private static SearchSourceBuilder withAggregations(SearchSourceBuilder rewritten, SearchSourceBuilder original) {
        if (original.aggregations() != null) {
            original.aggregations().getAggregatorFactories().forEach(rewritten::aggregation);
            original.aggregations().getPipelineAggregatorFactories().forEach(rewritten::aggregation);
        }
        return rewritten;
    }

    /**
     * Returns the body of the request to the service.
     *
     * @throws RewriteException if the search cannot be written as JSON, or has more than {@link #MAX_BYTES} bytes
     */
    private static byte[] body(SearchRequest request) {
        byte[] body;
        try (XContentBuilder json = XContentBuilder.builder(JsonXContent.jsonXContent, Set.of(), Set.of("body.aggregations"))) {
            json.startObject();
            json.field("index", index(request));
            json.field("hide_vectors", true);
            if (request.scroll() != null) {
                // The search body does not show whether the search is a scroll, and OpenSearch cannot rescore a scroll.
                json.field("scroll", true);
            }
            json.field("body", request.source().shallowCopy().ext(Sections.ofService(request.source())));
            json.endObject();
            body = BytesReference.toBytes(BytesReference.bytes(json));
        } catch (IOException | RuntimeException | StackOverflowError e) {
            throw new RewriteException(Failure.REJECTED, "the search cannot be written as JSON: " + e);
        }
        if (body.length > MAX_BYTES) {
            throw new RewriteException(Failure.REJECTED, "the search body has more than " + MAX_BYTES + " bytes");
        }
        return body;
    }

    /** Returns the names of the searched indices, aliases, data streams or patterns, separated by commas. */
    private static String index(SearchRequest request) throws IOException {
        if (request.pointInTimeBuilder() != null) {
            return String.join(",", PointInTime.indices(request.pointInTimeBuilder().getId()));
        }
        String[] indices = request.indices();
        return indices == null || indices.length == 0 ? ALL_INDICES : String.join(",", indices);
    }
}
