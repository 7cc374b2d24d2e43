import { z } from 'zod';

/** So that the names of Baton's channels fit into the 63 bytes that Postgres gives a name. */
const MAX_NAME_CHARS = 40;

const WORDS = `a name of a-z, 0-9 and _, at most ${MAX_NAME_CHARS}, that does not begin with a digit or pg_ or end with _queue, and is not public, bullmq or information_schema`;

/** Of the name of a Postgres schema that Baton has to itself. The names left out are those of Postgres and of queues. */
export const schemaNameSchema = z
  .string()
  .regex(/^(?!pg_)(?!.*_queue$)(?!(?:public|bullmq|information_schema)$)[a-z_][a-z0-9_]*$/, WORDS)
  .max(MAX_NAME_CHARS, WORDS);

/** The URL whose connections look for tables and functions in this schema alone. */
export function inSchema(connectionString: string, schema: string | undefined): string {
  if (schema === undefined) return connectionString;
  const url = new URL(connectionString);
  const options = url.searchParams.get('options') ?? '';
  // Postgres takes the last of several.
  url.searchParams.set('options', `${options} -c search_path=${schema}`.trimStart());
  return url.href;
}
