// InstantSearch over an attached index, in a session: node instantsearch.mjs INDEX QUERY SESSION
// npm install searchkit @searchkit/instantsearch-client
import Client from "@searchkit/instantsearch-client";
import Searchkit from "searchkit";

const [index, query, session] = process.argv.slice(2);
const searchkit = new Searchkit({
  connection: { host: process.env.OPENSEARCH_URL ?? "http://127.0.0.1:9200" },
  search_settings: { search_attributes: ["title"], result_attributes: ["title"] },
});

/** Name the session in each search, and the search pipeline that reads it. */
const beforeSearch = async (requests) => requests.map((one) => ({
  ...one,
  body: { ...one.body, search_pipeline: `resift-${one.indexName}`, ext: { resift: { query: one.request.params.query, session } } },
}));

const searchClient = Client(searchkit, { hooks: { beforeSearch } }); // a page passes it on: instantsearch({ searchClient, indexName })
const { results } = await searchClient.search([{ indexName: index, params: { query } }]);
console.log(results[0].hits.map((hit) => hit.objectID).join(" "));
