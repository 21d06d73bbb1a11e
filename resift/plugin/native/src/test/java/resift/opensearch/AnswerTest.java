// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.opensearch.common.settings.Settings;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.index.query.TermQueryBuilder;
import org.opensearch.search.SearchModule;
import org.opensearch.search.builder.SearchSourceBuilder;

class AnswerTest {
    private static final NamedXContentRegistry REGISTRY = new NamedXContentRegistry(
        new SearchModule(Settings.EMPTY, List.of()).getNamedXContents()
    );

    @Test
    void readsARewrittenBodyInAnyOrderOfFields() throws IOException {
        Optional<SearchSourceBuilder> wanted = Optional.of(new SearchSourceBuilder().size(3).query(new TermQueryBuilder("n", 9007199254740993L)));
        String body = "\"body\": {\"size\": 3, \"query\": {\"term\": {\"n\": 9007199254740993}}}";
        String report = "\"resift\": {\"outcome\": \"rewritten\", \"rewritten\": true}";
        assertEquals(wanted, read("{" + body + "," + report + "}"));
        assertEquals(wanted, read("{" + report + ", \"more\": [{\"body\": {}}]," + body + "}"));
    }

    @Test
    void doesNotParseAnUnchangedBody() throws IOException {
        assertEquals(Optional.empty(), read("{\"body\": {\"ext\": {\"unheard_of\": 1}}, \"resift\": {\"rewritten\": false}}"));
    }

    @ParameterizedTest
    @ValueSource(
        strings = {
            "",
            "null",
            "[]",
            "{}",
            "<html>",
            "{\"body\": {}}",
            "{\"resift\": {\"rewritten\": true}}",
            "{\"body\": 3, \"resift\": {\"rewritten\": true}}",
            "{\"body\": {}, \"resift\": {}}",
            "{\"body\": {}, \"resift\": {\"rewritten\": 1}}",
            "{\"body\": {" }
    )
    void refusesOtherAnswers(String json) {
        assertThrows(IOException.class, () -> read(json));
    }

    @Test
    void aBodyThatOpenSearchCannotParseIsNoFailureOfTheService() {
        String answer = "{\"body\": {\"query\": {\"unheard_of\": {}}}, \"resift\": {\"rewritten\": true}}";
        RewriteException error = assertThrows(RewriteException.class, () -> read(answer));
        assertEquals(Failure.UNSUPPORTED, error.failure);
        assertFalse(error.failure.concernsService);
    }

    private static Optional<SearchSourceBuilder> read(String json) throws IOException {
        return Answer.read(json.getBytes(StandardCharsets.UTF_8), REGISTRY);
    }
}
