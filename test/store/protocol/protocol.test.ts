import { afterAll, beforeAll, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../support/postgres.ts';
import { propertyRuns } from '../../support/property-runs.ts';
import { exploreProtocol } from './explore.ts';
import { openConnections } from './interleaving.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

it('what clients, workers and reconcilers do to a session, alone or at the same time, is as the protocol says', async () => {
  await using connections = await openConnections(database.connectionString, 3);
  await exploreProtocol(database.db, connections, { numRuns: propertyRuns(0.3) });
});
