// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.List;
import java.util.Map;

import org.opensearch.action.search.SearchRequest;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.plugins.SearchPipelinePlugin.SystemGeneratedSearchPipelineConfigKeys;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.ProcessorGenerationContext;
import org.opensearch.search.pipeline.SearchRequestProcessor;
import org.opensearch.search.pipeline.SystemGeneratedProcessor;
import org.opensearch.search.pipeline.SystemGeneratedProcessor.ExecutionStage;

/**
 * Adds a processor to searches in a session if the setting {@code resift.url} names the service. All other searches with the section
 * {@code ext.resift} also get a processor, which only removes this section.
 */
final class SystemGeneratedFactory implements SystemGeneratedProcessor.SystemGeneratedFactory<SearchRequestProcessor> {
    /** The section of searches with maximal marginal relevance (MMR), for which the k-NN plugin also generates a processor. */
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
        return shouldGenerate(context.searchRequest().source());
    }

    /**
     * Returns whether a search gets a processor.
     *
     * @param source the search body, or null if the request has none
     */
    boolean shouldGenerate(SearchSourceBuilder source) {
        if (source == null) {
            return false;
        }
        return Sections.contain(source, ResiftExt.NAME) || (service.endpoints().isEmpty() == false && Sections.nameSession(source));
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
        SearchRequest request = (SearchRequest) config.get(SystemGeneratedSearchPipelineConfigKeys.SEARCH_REQUEST);
        // OpenSearch allows one generated processor before those of the search pipeline and one after them. That of MMR is one after them.
        ExecutionStage stage = Sections.contain(request.source(), MMR) ? ExecutionStage.PRE_USER_DEFINED : ExecutionStage.POST_USER_DEFINED;
        return new SystemGeneratedRewriteProcessor(tag, description, ignoreFailure, rewriting, service, stage);
    }
}
