// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.junit.jupiter.api.Test;
import org.opensearch.common.io.stream.BytesStreamOutput;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;

class SectionsTest {
    @Test
    void aSessionIsNamedByResiftOrByUserBehaviorInsights() {
        assertTrue(isInSession(new ResiftExt(Map.of("session", "anna"))));
        assertTrue(isInSession(new ResiftExt(Map.of("session", 3))), "the service reports that the name must be a string");
        assertTrue(isInSession(new Section("ubi", Map.of("client_id", "anna", "user_query", "fire"))), "the form of UBI");
        assertTrue(isInSession(new Section("ubi", Map.of("ubi", Map.of("client_id", "anna")))), "the form of the search body");
    }

    @Test
    void otherSearchesAreInNoSession() {
        assertFalse(Sections.nameSession(null));
        assertFalse(isInSession());
        assertFalse(isInSession(new ResiftExt(Map.of("query", "fire"))));
        assertFalse(isInSession(new ResiftExt(Map.of("session", ""))));
        assertFalse(isInSession(new Section("ubi", Map.of("user_query", "fire"))));
        assertFalse(isInSession(new Section("other", Map.of("client_id", "anna", "session", "anna"))));
    }

    @Test
    void keysOfASectionWithoutSessionAreKnown() {
        assertEquals(Set.of("sesion"), keysWithoutSession(new ResiftExt(Map.of("sesion", "anna"))));
        assertEquals(Set.of(), keysWithoutSession(new ResiftExt(Map.of("session", "", "alpha", 0.5))), "the client knows the key");
        assertEquals(Set.of(), keysWithoutSession(new Section("other", Map.of("sesion", "anna"))));
        assertEquals(Set.of(), Sections.keysWithoutSession(null));
    }

    @Test
    void sectionsOfOtherPluginsAreKept() {
        Section other = new Section("other", Map.of());
        SearchSourceBuilder source = new SearchSourceBuilder().ext(List.of(new ResiftExt(Map.of("session", "anna")), other));
        assertEquals(List.of(other), Sections.ofOthers(source));
        assertEquals(List.of(source.ext().get(0)), Sections.ofService(source));
        assertTrue(Sections.contain(source, "other"));
        assertFalse(Sections.contain(source, "mmr"));
    }

    @Test
    void theSectionIsSentToOtherNodesUnchanged() throws IOException {
        ResiftExt section = new ResiftExt(Map.of("session", "anna", "alpha", 0.5, "without", List.of("fire")));
        try (BytesStreamOutput out = new BytesStreamOutput()) {
            section.writeTo(out);
            assertEquals(section, new ResiftExt(out.bytes().streamInput()));
        }
    }

    private static boolean isInSession(SearchExtBuilder... sections) {
        return Sections.nameSession(new SearchSourceBuilder().ext(List.of(sections)));
    }

    private static Set<String> keysWithoutSession(SearchExtBuilder... sections) {
        return Sections.keysWithoutSession(new SearchSourceBuilder().ext(List.of(sections)));
    }
}
