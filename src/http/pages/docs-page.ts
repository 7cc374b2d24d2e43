import { html } from 'hono/html';
import { PROBLEM_KINDS } from '../../api/problems.ts';
import { type Markup, renderPage } from './layout.ts';

/** Swagger UI is made for wide screens. These styles let its tables and code wrap on a phone. */
const NARROW = `
  .swagger-ui .wrapper { padding: 0; }
  .swagger-ui .opblock .opblock-summary-path { max-width: none; }
  .swagger-ui .opblock-body pre.microlight, .swagger-ui .model { overflow-wrap: anywhere; white-space: pre-wrap; }
  @media (max-width: 640px) {
    .swagger-ui table, .swagger-ui tbody, .swagger-ui tr, .swagger-ui td { display: block; width: auto; min-width: 0; }
    .swagger-ui thead { display: none; }
    .swagger-ui .parameters-col_name { width: auto; }
    .swagger-ui .opblock-body select, .swagger-ui .opblock-body input, .swagger-ui textarea { max-width: 100%; min-width: 0; }
  }`;

/** The API to read and to try out, by the installed package of Swagger UI. */
export function renderDocsPage(title: string): Markup {
  return renderPage({
    title: `${title} API`,
    head: html`<link rel="stylesheet" href="/docs/swagger-ui.css">
<style>${NARROW}</style>`,
    body: html`<nav><a href="/">Baton</a><a href="/openapi.json">openapi.json</a></nav>
<details id="codes"><summary>Problem codes</summary>
<p>Each refusal is a problem of RFC 9457; its <code>type</code> leads here.</p>
<table><tr><th>code</th><th>status</th><th>meaning</th></tr>${renderProblemCodes()}</table>
</details>
<div id="api"></div>
<noscript>This page needs JavaScript. For programs and readers without it: <a href="/openapi.json">openapi.json</a>.</noscript>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/show.js"></script>`,
  });
}

function renderProblemCodes(): Markup[] {
  return Object.entries(PROBLEM_KINDS).map(
    ([code, { status, title }]) =>
      html`<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${title}</td></tr>`,
  );
}

/** Shows the API's document. It asks no other host, and does not store a key that is typed in. */
export const SHOW_SCRIPT = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#api',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  filter: true,
  tagsSorter: 'alpha',
  validatorUrl: null,
});

/** Swagger UI has its dark look under this class. */
const dark = matchMedia('(prefers-color-scheme: dark)');
const followTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', followTheme);
followTheme();

/** The table of codes stands above the routes, which are drawn later: a place in it does not move. */
function showCode() {
  const target = document.getElementById(location.hash.slice(1));
  target?.closest('details')?.setAttribute('open', '');
  target?.scrollIntoView();
}
addEventListener('hashchange', showCode);
showCode();
`;
