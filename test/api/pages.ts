import { PROBLEM_KINDS } from '../../src/api/problems.ts';
import { isOpenPath, requiredScope } from '../../src/domain/access.ts';
import type { OpenApi, Operation, Schema } from './document.ts';

const GENERATED = '<!-- Generated from src/api by `npm run generate`. -->';

/** Answers that every route may give, so that the table leaves them out. */
const ANY_ROUTE: ReadonlySet<string> = new Set(['400', '401', '403', '429', '500', '503']);

/** docs/api.md: each route with its scope and its answers. */
export function apiPage({ paths }: OpenApi): string {
  const routes = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const groups = [...Map.groupBy(routes, ({ operation }) => operation.tags[0] ?? '')].map(([tag, group]) => {
    const rows = group.map(({ method, path, operation }) => {
      const route = `\`${method} ${path.replaceAll('|', '\\|')}\``;
      return `| ${route} | ${words(operation)} | ${scopeOf(method, path)} | ${answersOf(operation)} |`;
    });
    return `## ${tag}\n\n| route | what it does | scope | answers |\n|---|---|---|---|\n${rows.join('\n')}\n`;
  });
  const codes = Object.entries(PROBLEM_KINDS).map(
    ([code, { status, title }]) => `| \`${code}\` | ${status} | ${title} |`,
  );
  return `# The HTTP API

${GENERATED}

A running service shows the same with all fields at \`/docs\`, and for programs at \`/openapi.json\`.
A request carries its key as \`Authorization: Bearer\`.
The scope is the one that the key needs.
Every route that needs a key may also answer 400, 401, 403, 429, 500 or 503.
Each error is a problem of [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) with one of the [codes](#errors) and the wrong fields.
Outside of this list are \`POST /mcp\` ([the agents as tools of MCP](facades.md#mcp)), \`/console/\` ([the console](console.md)) and
\`/admin/queues\` ([the board of the queues](operations.md#the-board-of-the-queues)).

${groups.join('\n')}
## Errors

| code | status | meaning |
|---|---|---|
${codes.join('\n')}
`;
}

/** docs/events.md: each event of a session with its fields. */
export function eventsPage({ components: { schemas } }: OpenApi): string {
  const tableOf = (name: string): string => {
    const rows = (schemas[name]?.oneOf ?? []).map(({ title, description = '', properties }) => {
      return `| \`${title}\` | ${cell(description)} | ${fieldsOf(properties?.['data'] ?? {})} |`;
    });
    return `| event | meaning | fields of \`data\` |\n|---|---|---|\n${rows.join('\n')}\n`;
  };
  return `# The events of a session

${GENERATED}

\`GET /v1/sessions/{id}/events\` streams them.
The stream begins with \`session:snapshot\`, and again after each reconnect.
A heartbeat comes every 5 seconds.
Resume with \`Last-Event-ID\` or \`?after=\`; with \`Accept: application/json\` the route answers with a page of durable events.
A field with \`?\` may be absent.
Events are kept as long as their session, unless \`BATON_RETENTION_DAYS\` or \`npm run retention\` removes them earlier.
Contents over 16 KiB are not repeated: a \`contentRef\` has their \`sizeBytes\`, and the \`href\` to read them.

## Durable events

A durable event has a number, \`seq\`, without gaps in the log of its session.
The transaction that an event describes writes it.

${tableOf('SessionEvent')}
## Previews

Previews are not stored and have no number.

${tableOf('LiveEvent')}
## The snapshot

\`session:snapshot\` holds the session as of event \`seq\`: ${fieldsOf(schemas['SessionSnapshot'] ?? {})}.
`;
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

const words = ({ summary, description }: Operation): string =>
  cell(description === undefined ? sentence(summary) : `${sentence(summary)} ${description}`);

function scopeOf(method: string, path: string): string {
  if (isOpenPath(path)) return 'no key';
  return requiredScope(method, path) ?? 'any';
}

function answersOf({ responses }: Operation): string {
  const shown = Object.entries(responses).filter(([status]) => !ANY_ROUTE.has(status));
  const isRefusal = ([status]: readonly [string, unknown]): boolean => status >= '400';
  const answers = shown.filter((each) => !isRefusal(each));
  const refusals = shown.filter(isRefusal).map(([status]) => status);
  return [
    ...answers.map(([status, { description }]) => `**${status}** ${cell(sentence(description))}`),
    ...(refusals.length === 0 ? [] : [`Or ${refusals.join(', ')}.`]),
  ].join(' ');
}

function fieldsOf({ properties = {}, required = [] }: Schema): string {
  const fields = Object.entries(properties).map(([name, schema]) => {
    return `\`${name}${required.includes(name) ? '' : '?'}\` ${kindOf(schema)}`;
  });
  return fields.length === 0 ? 'none' : fields.join(', ');
}

const MOST_WORDS = 8;

/** The type of a field in a word or two. */
function kindOf({ type, enum: values, const: only, anyOf, items, format }: Schema & { format?: string }): string {
  if (only !== undefined) return `\`${String(only)}\``;
  if (values !== undefined) {
    return values.length > MOST_WORDS
      ? 'one of many words'
      : values.map((value) => `\`${String(value)}\``).join(' or ');
  }
  if (anyOf !== undefined) return anyOf.map(kindOf).join(' or ');
  if (Array.isArray(type)) return type.join(' or ');
  if (type === 'array') return items?.type === 'string' && items.enum === undefined ? 'list of strings' : 'list';
  if (format === 'date-time') return 'time';
  return typeof type === 'string' ? type : 'JSON';
}
