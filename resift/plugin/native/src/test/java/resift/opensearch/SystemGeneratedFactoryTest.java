// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.junit.jupiter.api.Test;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.plugins.SearchPipelinePlugin.SystemGeneratedSearchPipelineConfigKeys;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.PipelineProcessingContext;
import org.opensearch.search.pipeline.SystemGeneratedProcessor;
import org.opensearch.search.pipeline.SystemGeneratedProcessor.ExecutionStage;

class SystemGeneratedFactoryTest {
    private static final TimeValue TIMEOUT = TimeValue.timeValueMillis(300);
    private static final ResiftExt SESSION = new ResiftExt(Map.of("session", "anna"));
    private static final Section MMR = new Section("mmr", Map.of());

    private final Rewriting rewriting = new Rewriting(
        new RewriteClient(Runnable::run, (delay, task) -> () -> {}, null),
        new ThreadContext(Settings.EMPTY),
        Path.of("."),
        () -> null,
        () -> TimeValue.MINUS_ONE
    );
    private final SystemGeneratedFactory factory = new SystemGeneratedFactory(rewriting);

    @Test
    void searchesInASessionGetAProcessorIfAServiceIsConfigured() {
        Section client = new Section("ubi", Map.of("client_id", "anna"));
        factory.configure(List.of("http://127.0.0.1:8080"), TIMEOUT);
        assertTrue(shouldGenerate(SESSION));
        assertTrue(shouldGenerate(client));
        assertFalse(shouldGenerate(MMR));
        assertFalse(shouldGenerate());
        assertFalse(factory.shouldGenerate((SearchSourceBuilder) null));
        factory.configure(List.of(), TIMEOUT);
        assertFalse(shouldGenerate(client));
    }

    @Test
    void theSectionIsRemovedEvenIfItNamesNoSessionOrNoServiceIsConfigured() throws Exception {
        factory.configure(List.of("http://127.0.0.1:8080"), TIMEOUT);
        assertEquals(List.of(MMR), sectionsAfterProcessing(new ResiftExt(Map.of("session", "")), MMR));
        factory.configure(List.of(), TIMEOUT);
        assertEquals(List.of(), sectionsAfterProcessing(SESSION));
        for (Failure failure : Failure.values()) {
            assertEquals(0, rewriting.stats().count(failure));
        }
    }

    @Test
    void theProcessorRunsBeforeThePipelineIfTheProcessorOfMmrRunsAfterIt() throws Exception {
        factory.configure(List.of("http://127.0.0.1:8080"), TIMEOUT);
        assertEquals(ExecutionStage.POST_USER_DEFINED, create(request(SESSION)).getExecutionStage());
        assertEquals(ExecutionStage.PRE_USER_DEFINED, create(request(SESSION, MMR)).getExecutionStage());
    }

    private List<SearchExtBuilder> sectionsAfterProcessing(SearchExtBuilder... sections) throws Exception {
        assertTrue(shouldGenerate(sections));
        SearchRequest request = request(sections);
        List<SearchRequest> processed = new ArrayList<>();
        ActionListener<SearchRequest> listener = ActionListener.wrap(processed::add, error -> {});
        ((RewriteProcessor) create(request)).processRequestAsync(request, new PipelineProcessingContext(), listener);
        return processed.get(0).source().ext();
    }

    private SystemGeneratedProcessor create(SearchRequest request) throws Exception {
        Map<String, Object> config = Map.of(SystemGeneratedSearchPipelineConfigKeys.SEARCH_REQUEST, request);
        return (SystemGeneratedProcessor) factory.create(Map.of(), null, null, false, config, null);
    }

    private boolean shouldGenerate(SearchExtBuilder... sections) {
        return factory.shouldGenerate(request(sections).source());
    }

    private static SearchRequest request(SearchExtBuilder... sections) {
        return new SearchRequest(new String[] { "a" }, new SearchSourceBuilder().ext(List.of(sections)));
    }
}
