import { expect, it } from 'vitest';
import { createTestDatabase } from '../../support/postgres.ts';
import { BREAKAGES, installBroken } from './breakages.ts';
import { exploreProtocol } from './explore.ts';
import { openConnections } from './interleaving.ts';

/** Far more than any of them took. */
const PLAYS = 1_000;
/** Always the same plays, so that this takes as long each time. Any other seed finds them as well. */
const SEED = 2;

it.each(Object.entries(BREAKAGES))('plays show that %s', async (_, changes) => {
  await using database = await createTestDatabase({ isNew: true });
  await installBroken(database.db, changes);
  await using connections = await openConnections(database.connectionString, 3);
  const plays = exploreProtocol(database.db, connections, { numRuns: PLAYS, seed: SEED, endOnFailure: true });
  await expect(plays).rejects.toThrow('Property failed after');
});
