import { html } from 'hono/html';
import { batonCommand } from '../../platform/baton-command.ts';
import { type Markup, renderPage } from './layout.ts';

export type Place = Readonly<{ path: string; words: string }>;

/** The page for a person who opens the service in a browser: links. */
export function renderStartPage(places: readonly Place[]): Markup {
  const rows = places.map(({ path, words }) => html`<tr><td><a href="${path}">${path}</a></td><td>${words}</td></tr>`);
  return renderPage({
    title: 'Baton',
    body: html`<h1>Baton</h1>
<p>Durable sessions of LLM agents. This is the service; programs speak to it over HTTP.</p>
<table>${rows}</table>
<p>A first session:</p>
<pre>${batonCommand()} submit --follow "Which files are here?"</pre>`,
  });
}
