import { html } from 'hono/html';
import type { BatonApp } from './http-deps.ts';
import { PROBLEM_KINDS } from './problem.ts';

type OpenApiDocument = ReturnType<BatonApp['getOpenAPI31Document']>;
type PathItem = NonNullable<OpenApiDocument['paths']>[string];
type Operation = NonNullable<PathItem['get']>;
type Markup = ReturnType<typeof html>;

const METHODS = ['get', 'post', 'patch', 'delete'] as const;

const STYLE = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  h3 { margin: 2.5rem 0 0; font-family: ui-monospace, monospace; font-size: 1rem; }
  table { border-collapse: collapse; width: 100%; }
  td, th { border-bottom: 1px solid #8884; padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
  pre { overflow: auto; padding: .75rem; background: #8882; border-radius: .25rem; font-size: .85rem; }
  summary { cursor: pointer; }`;

/**
 * The documentation page: one HTML document without scripts, so that it works without internet and under a policy that
 * allows no script at all.
 */
export function renderDocsPage(document: OpenApiDocument): Markup {
  const { info, paths = {}, components } = document;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [renderOperation(method, path, operation)];
    }),
  );
  const schemas = Object.entries(components?.schemas ?? {}).map(
    ([name, schema]) => html`<h3 id="schema-${name}">${name}</h3>${renderJson(schema)}`,
  );
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${info.title} API</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${info.title} API</h1>
<p>${info.description ?? ''} For programs: <a href="/openapi.json">openapi.json</a>.</p>
<h2>Routes</h2>
${operations}
<h2>Problem codes</h2>
<table><tr><th>code</th><th>status</th><th>meaning</th></tr>${renderProblemCodes()}</table>
<h2>Schemas</h2>
${schemas}
</body>
</html>`;
}

function renderOperation(method: string, path: string, operation: Operation): Markup {
  return html`<section>
<h3>${method.toUpperCase()} ${path}</h3>
<p>${operation.summary ?? ''}. ${operation.description ?? ''}</p>
${renderParameters(operation)}
${renderBody(operation)}
<table>${Object.entries(operation.responses ?? {}).map(renderResponse)}</table>
</section>`;
}

function renderParameters({ parameters = [] }: Operation): Markup | string {
  const rows = parameters.map((parameter) => {
    if ('$ref' in parameter) return '';
    const { name, in: place, required, schema } = parameter;
    return html`<tr><td><code>${name}</code></td><td>${place}${required === true ? ', required' : ''}</td>
<td><code>${JSON.stringify(schema)}</code></td></tr>`;
  });
  return rows.length === 0 ? '' : html`<table><tr><th>parameter</th><th>in</th><th>schema</th></tr>${rows}</table>`;
}

function renderBody({ requestBody }: Operation): Markup | string {
  if (requestBody === undefined || '$ref' in requestBody) return '';
  return html`<p>Body</p>${Object.values(requestBody.content).map(({ schema }) => renderJson(schema))}`;
}

type Response = Readonly<{ description?: string; content?: Readonly<Record<string, unknown>> }>;

function renderResponse([status, response]: [string, Response]): Markup {
  const types = Object.keys(response.content ?? {}).join(', ');
  return html`<tr><td><code>${status}</code></td><td>${response.description ?? ''}</td><td>${types}</td></tr>`;
}

function renderProblemCodes(): Markup[] {
  return Object.entries(PROBLEM_KINDS).map(
    ([code, { status, title }]) =>
      html`<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${title}</td></tr>`,
  );
}

const renderJson = (value: unknown): Markup =>
  html`<details><summary>schema</summary><pre>${JSON.stringify(value, null, 2)}</pre></details>`;
