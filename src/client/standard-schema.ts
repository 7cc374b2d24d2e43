import type { OutputFormat } from './contract.ts';

/**
 * A schema of zod 4.2 or of another library, by the specifications Standard Schema and Standard JSON Schema
 * (standardschema.dev).
 */
export type StandardSchema<Input = unknown, Output = Input> = Readonly<{
  '~standard': Readonly<{
    version: 1;
    vendor: string;
    validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    jsonSchema: Readonly<{ input: (options: Readonly<{ target: 'draft-2020-12' }>) => Record<string, unknown> }>;
    types?: Readonly<{ input: Input; output: Output }> | undefined;
  }>;
}>;

/** The type of what a schema gives out. */
export type OutputOf<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['output'];

type StandardResult<Output> =
  | Readonly<{ value: Output; issues?: undefined }>
  | Readonly<{ issues: ReadonlyArray<Readonly<{ message: string }>> }>;

/** Programs without types may give anything. */
export const isStandardSchema = (candidate: unknown): candidate is StandardSchema =>
  typeof candidate === 'object' && candidate !== null && '~standard' in candidate;

/**
 * The JSON Schema of what a schema takes. A default may be left out, and a transform comes after it.
 * @throws Error in the words of its library, where that cannot write it as a JSON Schema
 */
export function jsonSchemaOf(schema: StandardSchema): OutputFormat['schema'] {
  const { vendor, jsonSchema } = schema['~standard'];
  // A library that follows only the older of the two specifications has none.
  if (jsonSchema === undefined) throw new Error(`schemas of ${vendor} have no JSON Schema: give { schema } with one`);
  const { $schema: _dialect, ...converted } = jsonSchema.input({ target: 'draft-2020-12' });
  if (converted['type'] !== 'object') throw new Error('expected the schema of an object');
  return { ...converted, type: 'object' };
}

/**
 * The value as the schema gives it out, with its defaults and transforms.
 * @throws Error that says why it does not fit
 */
export async function parseBy<Output>(schema: StandardSchema<unknown, Output>, value: unknown): Promise<Output> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  throw new Error(result.issues.map(({ message }) => message).join('; '));
}
