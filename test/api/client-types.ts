import { PROBLEM_KINDS } from '../../src/api/problems.ts';
import { ERROR_CODES } from '../../src/domain/errors.ts';
import { REQUESTED_DELIVERIES } from '../../src/domain/run/delivery.ts';
import { INCOMPLETE_REASONS, LIMIT_REASONS, RUN_STATUSES, SWITCH_REASONS } from '../../src/domain/run/run.ts';
import { SESSION_STATUSES } from '../../src/domain/run/session.ts';
import { FINISH_REASONS } from '../../src/domain/transcript/message.ts';
import { USAGE_DIMENSIONS } from '../../src/domain/usage-dimensions.ts';
import { WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { formatted } from '../support/formatted.ts';
import type { OpenApi, Schema } from './document.ts';

export const CLIENT_TYPES_FILE = 'src/client/contract.ts';

const HEADER = `// The shapes of the API. Written by "npm run generate" from src/api; never change it here.
import type { Json } from './json.ts';
import type { Part } from './parts.ts';
`;

/** Lists of words that have a name of their own. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  Delivery: REQUESTED_DELIVERIES,
  ErrorCode: Object.keys(PROBLEM_KINDS),
  FinishReason: FINISH_REASONS,
  IncompleteReason: INCOMPLETE_REASONS,
  LimitReason: LIMIT_REASONS,
  RunErrorCode: ERROR_CODES,
  RunStatus: RUN_STATUSES,
  SessionStatus: SESSION_STATUSES,
  SwitchReason: SWITCH_REASONS,
  UsageDimension: USAGE_DIMENSIONS,
  WebhookEvent: WEBHOOK_EVENTS,
};

/** Schemas that the client has under another name. */
const NAMES: Readonly<Record<string, string>> = {
  AcceptedMessage: 'SentMessage',
  Context: 'ContextMeter',
  View: 'ViewPage',
};

/** Schemas whose types the client needs no name for, or spells more exactly: see src/client/messages.ts. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  'AgentSwitch',
  'ChatRequest',
  'Completion',
  'FiredSchedule',
  'Fork',
  'LiveEvent',
  'MessageWebhook',
  'NewMessage',
  'Part',
  'PauseSchedule',
  'Problem',
  'ResponseRequest',
  'Resume',
  'Revert',
  'ScheduleChanges',
  'SessionChange',
  'SessionEvent',
  'ToldWebhook',
  'ToolCallAnswer',
  'WaitingMessageChange',
  'WebhookChanges',
  'WholeWebhookDelivery',
]);

/** The types of the API's bodies and events, as a TypeScript file without imports of the service. */
export function clientTypes({ components: { schemas }, paths }: OpenApi): string {
  const requested = requestedNames(schemas, paths);
  const named = Object.entries(schemas)
    .filter(([name]) => !LEFT_OUT.has(name))
    .map(([name, schema]) => ({ name: nameOf(name), schema, isRequested: requested.has(name) }))
    .toSorted((one, other) => one.name.localeCompare(other.name, 'en'));
  // An event repeats the fields of a body in place of a reference.
  const namesOf = new Map(named.map(({ name, schema }) => [withoutDocs(typeOf({ schema })), name]));
  const types = named.map(({ name, schema, isRequested }) => {
    return `${docOf(schema)}export type ${name} = ${typeOf({ schema, isRequested })};\n`;
  });
  const words = Object.entries(WORDS).map(([name, values]) => `export type ${name} = ${unionOf(values)};\n`);
  const events = [
    ['The data of the durable events of a session, by their names.', 'EventData', schemas['SessionEvent']],
    ['The data of the previews in a stream, by their names.', 'LiveData', schemas['LiveEvent']],
  ] as const;
  const data = events.map(
    ([description, name, { oneOf = [] } = {}]) =>
      `/** ${description} */\nexport type ${name} = Readonly<{${oneOf.map((event) => eventOf(event, namesOf)).join('\n')}}>;\n`,
  );
  return formatted(CLIENT_TYPES_FILE, [HEADER, ...words, ...types, ...data].join('\n'));
}

function eventOf({ title = '', description, properties }: Schema, namesOf: ReadonlyMap<string, string>): string {
  return `${docOf({ description })}'${title}': ${typeOf({ schema: properties?.['data'] ?? {}, namesOf })};`;
}

const unionOf = (values: readonly unknown[]): string => values.map((value) => JSON.stringify(value)).join(' | ');
const keyOf = (values: readonly unknown[]): string => values.map(String).toSorted().join(' ');
const NAMES_OF_WORDS = new Map(Object.entries(WORDS).map(([name, values]) => [keyOf(values), name]));

const nameOf = (name: string): string => NAMES[name] ?? name;
const withoutDocs = (type: string): string => type.replaceAll(/\/\*\*[\s\S]*?\*\/\s*/g, '').replaceAll(/\s+/g, ' ');

/** The schemas that requests hold: their optional fields may be given as undefined, too. */
function requestedNames(schemas: OpenApi['components']['schemas'], paths: OpenApi['paths']): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if ('$ref' in value && typeof value.$ref === 'string') {
      const name = value.$ref.split('/').at(-1) ?? '';
      if (found.has(name)) return;
      found.add(name);
      visit(schemas[name]);
    }
    for (const each of Object.values(value)) visit(each);
  };
  for (const operations of Object.values(paths)) for (const each of Object.values(operations)) visit(each.requestBody);
  return found;
}

const DOC_WIDTH = 110;

function docOf({ description }: Readonly<{ description?: string | undefined }>): string {
  if (description === undefined) return '';
  const lines = description.match(new RegExp(`.{1,${DOC_WIDTH}}(?:\\s|$)`, 'g')) ?? [description];
  return lines.length === 1
    ? `/** ${description} */\n`
    : `/**\n${lines.map((line) => ` * ${line.trimEnd()}`).join('\n')}\n */\n`;
}

/** Whether a branch of `allOf` is more than a description of what it stands beside. */
const saysShape = (schema: Schema): boolean => Object.keys(schema).some((key) => key !== 'description');

/** `isRequested`: optional fields may be undefined. `namesOf`: names of types, by their text without comments. */
type Typed = Readonly<{ schema: Schema; isRequested?: boolean; namesOf?: ReadonlyMap<string, string> }>;

function typeOf(typed: Typed): string {
  const { schema, namesOf } = typed;
  const { $ref, type, oneOf, anyOf, allOf } = schema;
  const of = (each: Schema): string => typeOf({ ...typed, schema: each });
  if ($ref !== undefined) return nameOf($ref.split('/').at(-1) ?? '');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return wordsOf(schema.enum);
  const branches = oneOf ?? anyOf;
  if (branches !== undefined) return branches.map((each) => `(${of(each)})`).join(' | ');
  if (allOf !== undefined)
    return allOf
      .filter(saysShape)
      .map((each) => `(${of(each)})`)
      .join(' & ');
  if (Array.isArray(type)) return type.map((each: string) => of({ ...schema, type: each })).join(' | ');
  if (type === 'array') return `readonly (${schema.items === undefined ? 'Json' : of(schema.items)})[]`;
  if (type === 'integer' || type === 'number') return 'number';
  if (type === 'string' || type === 'boolean' || type === 'null') return type;
  if (type !== 'object') return 'Json';
  const object = objectOf(typed, of);
  return namesOf?.get(withoutDocs(object)) ?? object;
}

function wordsOf(values: readonly unknown[]): string {
  const words = values.filter((value) => value !== null);
  return `${NAMES_OF_WORDS.get(keyOf(words)) ?? unionOf(words)}${words.length < values.length ? ' | null' : ''}`;
}

function objectOf({ schema, isRequested = false }: Typed, of: (schema: Schema) => string): string {
  const { properties = {}, required = [], additionalProperties } = schema;
  const fields = Object.entries(properties).map(([name, field]) => {
    const isRequired = required.includes(name);
    const orUndefined = !isRequired && isRequested ? ' | undefined' : '';
    return `${docOf(field)}${JSON.stringify(name)}${isRequired ? '' : '?'}: ${of(field)}${orUndefined};`;
  });
  if (additionalProperties === undefined && fields.length === 0) return 'Readonly<Record<string, unknown>>';
  if (typeof additionalProperties === 'object') {
    const values = of(additionalProperties);
    if (fields.length === 0) return `Readonly<Record<string, ${values}>>`;
    fields.push(`[field: string]: ${values === 'Json' ? 'unknown' : values};`);
  }
  return `Readonly<{${fields[0]?.startsWith('/**') === true ? '\n' : ' '}${fields.join('\n')} }>`;
}
