// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.List;
import java.util.Map;

import org.opensearch.common.unit.TimeValue;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.ProcessorGenerationContext;
import org.opensearch.search.pipeline.SearchRequestProcessor;
import org.opensearch.search.pipeline.SystemGeneratedProcessor;

/** Adds a processor to searches in a session if the setting {@code resift.url} names the service. */
final class SystemGeneratedFactory implements SystemGeneratedProcessor.SystemGeneratedFactory<SearchRequestProcessor> {
    /**
     * The section of searches with maximal marginal relevance. The k-NN plugin generates a processor for such searches, and OpenSearch allows only
     * one generated processor for a search.
     */
    private static final String MMR = "mmr";

    private final Rewriting rewriting;
    private volatile Service service;

    /**
     * @param rewriting the parts that all processors of this node share
     */
    SystemGeneratedFactory(Rewriting rewriting) {
        this.rewriting = rewriting;
    }

    /**
     * Sets the addresses of the service.
     *
     * @param urls    the base URLs. If there are none, no search is rewritten.
     * @param timeout the maximum time that a search waits, including all URLs
     */
    void configure(List<String> urls, TimeValue timeout) {
        service = rewriting.service(urls, timeout.millis(), null);
    }

    @Override
    public boolean shouldGenerate(ProcessorGenerationContext context) {
        SearchSourceBuilder source = context.searchRequest().source();
        return service.endpoints().isEmpty() == false && rewriting.isInSession(source) && Sections.contain(source, MMR) == false;
    }

    @Override
    public SearchRequestProcessor create(
        Map<String, Processor.Factory<SearchRequestProcessor>> factories,
        String tag,
        String description,
        boolean ignoreFailure,
        Map<String, Object> config,
        Processor.PipelineContext context
    ) {
        return new SystemGeneratedRewriteProcessor(tag, description, ignoreFailure, rewriting, service);
    }
}
