import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { type BatonClient, createClient } from '../client/client.ts';
import { parseExactly } from '../domain/exact-json.ts';
import { UsageError } from './exit-codes.ts';
import { printableJson } from './terminal/words.ts';

const DEFAULT_URL = 'http://127.0.0.1:4400';

/** The common usage of all commands that talk to a service. */
export const REMOTE_USAGE = `  --url URL         URL of the service (default: BATON_URL, else ${DEFAULT_URL})
  --json            print JSON on stdout, for programs
BATON_API_KEY is sent if it is set.`;

const REMOTE_OPTIONS = { url: { type: 'string' }, json: { type: 'boolean', default: false } } as const;

/** The arguments of a command that talks to a service, and a client for it. @throws UsageError */
export function readRemote<Options extends ParseArgsOptionsConfig>(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
  options: Options,
) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { ...options, ...REMOTE_OPTIONS },
  });
  const parsedValues: Readonly<{ url?: unknown; json?: unknown }> = values;
  const baseUrl = String(parsedValues.url ?? (environment['BATON_URL'] || DEFAULT_URL));
  if (!URL.canParse(baseUrl)) throw new UsageError(`${baseUrl} is not a URL: http://host:port`);
  const client: BatonClient = createClient({
    baseUrl,
    apiKey: environment['BATON_API_KEY'] || undefined,
    parseJson: parseExactly,
  });
  return { values, positionals, client, isJson: parsedValues.json === true };
}

/** The positional arguments by name. All are required. @throws UsageError */
export function takeArguments<Name extends string>(
  positionals: readonly string[],
  ...names: readonly Name[]
): Readonly<Record<Name, string>> {
  const missing = names.find((_, index) => (positionals[index] ?? '').trim() === '');
  if (missing !== undefined) throw new UsageError(`${missing} is missing.`);
  const extra = positionals[names.length];
  if (extra !== undefined) throw new UsageError(`${extra} is too much: texts of several words go into quotes.`);
  return Object.fromEntries(names.map((name, index) => [name, positionals[index]])) as Record<Name, string>;
}

/** @throws UsageError if the word is none of these */
export function oneOf<Word extends string>(name: string, words: readonly Word[], input: string): Word {
  const word = words.find((candidate) => candidate === input);
  if (word === undefined) throw new UsageError(`${name} is one of ${words.join(', ')}, not ${input}.`);
  return word;
}

/** A whole number from 1, if one is given. @throws UsageError */
export function wholeNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw new UsageError(`${name} takes a whole number from 1 on, not ${text}.`);
}

export const writeJson = (value: unknown): void => void process.stdout.write(`${printableJson(value)}\n`);
export const writeLine = (line: string): void => void process.stdout.write(`${line}\n`);
