import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../db/database.ts';

const BYTES = 32;

/** The secret with which this installation seals the tokens of sessions. The first process that needs it makes it. */
export async function readTokenSecret(db: Db): Promise<Buffer> {
  const known = await findSecret(db);
  if (known !== undefined) return known;
  await sql`insert into token_secret (secret) values (${randomBytes(BYTES)}) on conflict do nothing`.execute(db);
  const made = await findSecret(db);
  if (made === undefined) throw new Error('the table token_secret has no row');
  return made;
}

async function findSecret(db: Db): Promise<Buffer | undefined> {
  const { rows } = await sql<{ secret: Buffer }>`select secret from token_secret`.execute(db);
  return rows[0]?.secret;
}
