import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { isGivenModel } from '../model/given-models.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import type { BatonOptions } from './contract.ts';

type Check = (value: unknown) => boolean;

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isFunction: Check = (value) => typeof value === 'function';
const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
const isLogger: Check = (value) => isObject(value) && LEVELS.every((level) => isFunction(Reflect.get(value, level)));

const must = (is: Check, words: string) => z.custom<unknown>(is, `expected ${words}`);
const listOf = (what: string, item: string) =>
  z.array(must(isObject, item), `expected a list of ${what}, as in [${item}]`);

/** The options that are no settings. Programs in JavaScript have no types, and an option is taken apart before it is read. */
const optionsSchema = z
  .looseObject({
    agents: listOf('agents', 'defineAgent({ name, model })'),
    models: z.record(z.string(), must(isGivenModel, 'a model of the AI SDK')),
    log: must(isLogger, `a logger of pino, or an object with the functions ${LEVELS.join(', ')}`),
    authenticate: must(isFunction, 'a function of a request'),
    environment: z.record(z.string(), z.string().optional()),
    openWithoutKeys: z.boolean(),
    migrate: z.boolean(),
    webhooks: listOf('webhooks', '{ key, url, secret }'),
    schedules: listOf('schedules', '{ key, agent, cron, content }'),
  })
  .partial();

/**
 * Refuses options of the wrong kind by their names.
 * @throws BatonError `config_invalid` that says what to pass
 */
export function checkOptions(options: unknown): asserts options is BatonOptions {
  if (!isObject(options)) {
    const example = "createBaton({ agents: [defineAgent({ name: 'clerk', model: 'openai/gpt-5.4' })] })";
    throw new BatonError('config_invalid', `createBaton expects an object of options, as in ${example}`);
  }
  const read = optionsSchema.safeParse(options);
  if (read.success) return;
  const problems = describeProblems(fileProblems(optionsSchema, read.error));
  throw new BatonError('config_invalid', problems, { cause: read.error });
}
