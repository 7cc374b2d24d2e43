import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { parseExactly, withPlainNumbers } from '../domain/exact-json.ts';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { FINISH_REASONS, jsonSchema, partSchema, userPartSchema } from '../domain/transcript/message.ts';
import { usageSchema } from '../domain/usage.ts';

/** A file with another number was written by another version of Baton, and is refused. */
const CASE_VERSION = 1;

/** Most bytes of a case as JSON, with the files in its messages. */
export const MAX_CASE_BYTES = 64 * 1024 * 1024;

const text = z.string();

/** A message of a request: its hash, and enough of its text to show a difference. */
const shownSchema = z.strictObject({ role: z.enum(['system', 'user', 'assistant', 'tool']), sha256: text, text });

const toolSchema = z.strictObject({ name: text, description: text, inputSchema: jsonSchema });

/** The request that the model was shown in a step. */
const requestSchema = z.strictObject({
  /**
   * Hash of the messages without secrets, computed as by the service; null: the service kept none. Messages with equal
   * hashes need not be compared.
   */
  sha256: text.nullable(),
  /** Index of the request's tools in `toolLists`. */
  tools: z.int().nonnegative(),
  /** Number of first messages that are the same as in the step before. */
  keeps: z.int().nonnegative(),
  adds: z.array(shownSchema),
});

const userSchema = z.strictObject({
  type: z.literal('user'),
  /** More than one if several messages waited together and one step took them up. */
  messages: z.array(z.array(userPartSchema).min(1)).min(1),
});

const stepSchema = z.strictObject({
  type: z.literal('step'),
  /** Number of the run in the case and of the step in that run, both from 1. */
  run: z.int().positive(),
  step: z.int().positive(),
  model: text,
  /** Null: the service could no longer tell the request. */
  request: requestSchema.nullable(),
  /** The model's answer. Each call carries its result. */
  parts: z.array(partSchema),
  finishReason: z.enum(FINISH_REASONS),
  usage: z.preprocess(withPlainNumbers, usageSchema),
  costUsd: z.preprocess(withPlainNumbers, z.number().nullable()),
});

/** A summary that replaced earlier messages. */
const summarySchema = z.strictObject({ type: z.literal('summary'), text });

const caseSchema = z.strictObject({
  batonCase: z.literal(CASE_VERSION),
  name: text,
  agent: text,
  overrides: z.record(text, z.unknown()),
  toolLists: z.array(z.array(toolSchema)),
  entries: z.array(z.discriminatedUnion('type', [userSchema, stepSchema, summarySchema])),
  end: z.strictObject({ status: z.enum(RUN_STATUSES), reason: text.nullable(), error: text.nullable() }),
});

/** A recorded session. */
export type Case = Readonly<z.infer<typeof caseSchema>>;
export type CaseEntry = Case['entries'][number];
export type CaseStep = z.infer<typeof stepSchema>;
export type CaseUser = z.infer<typeof userSchema>;
export type CaseTool = z.infer<typeof toolSchema>;
export type ShownMessage = z.infer<typeof shownSchema>;

export const newCase = (recorded: Omit<Case, 'batonCase'>): Case => ({ batonCase: CASE_VERSION, ...recorded });

export const stepsOf = ({ entries }: Pick<Case, 'entries'>): CaseStep[] =>
  entries.filter((entry) => entry.type === 'step');

/** @throws BatonError `invalid_request` that names the file and its fault */
export async function readCase(file: string): Promise<Case> {
  const { size } = await stat(file).catch((cause: unknown) => refuse(file, 'cannot be read', cause));
  if (size > MAX_CASE_BYTES) refuse(file, `has more than ${MAX_CASE_BYTES / 1024 / 1024} MiB`);
  const parsed = caseSchema.safeParse(parseJson(file, await readFile(file, 'utf8')));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? '' : `${issue.path.join('.')}: `;
  return refuse(file, `is no case of this version: ${where}${issue?.message ?? ''}`, parsed.error);
}

/** The files of the named cases: a file itself, and the files of a folder that end in `.json`. */
export async function listCases(named: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(named.map(listOne));
  return [...new Set(lists.flat())];
}

async function listOne(name: string): Promise<string[]> {
  const found = await stat(name).catch((cause: unknown) => refuse(name, 'cannot be read', cause));
  if (!found.isDirectory()) return [name];
  const files = (await readdir(name)).filter((file) => file.endsWith('.json')).sort();
  return files.length > 0 ? files.map((file) => path.join(name, file)) : refuse(name, 'has no cases (*.json)');
}

function parseJson(file: string, content: string): unknown {
  try {
    return parseExactly(content);
  } catch (cause) {
    return refuse(file, 'is not JSON', cause);
  }
}

function refuse(file: string, problem: string, cause?: unknown): never {
  throw new BatonError('invalid_request', `${file} ${problem}`, { cause });
}
