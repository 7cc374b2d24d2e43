import { randomBytes } from 'node:crypto';
import type { TestProject } from 'vitest/node';
import { migrateQueueTables } from '../../src/queues/migrate.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { migrateToLatest } from '../../src/store/db/migrate.ts';
import type { Backend } from './backends.ts';
import { createDatabasePool, type DatabasePool, destroyDatabasePool } from './database-pool.ts';
import { findServices } from './find-services.ts';
import { runAsAdmin, withDatabase } from './postgres.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgres: DatabasePool;
    /** The backends that a project can run on: vitest.config.ts. */
    backends: readonly Backend[];
    /** Null: no Redis here, or none for this project. */
    redisUrl: string | null;
  }
}

/** Finds the services once, migrates one template database, and removes it at the end. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const services = await findServices();
  for (const line of services.report) process.stdout.write(`${line}\n`);
  const templateName = `baton_template_${randomBytes(6).toString('hex')}`;
  await runAsAdmin(services.postgresUrl, `create database ${templateName}`);
  const connectionString = withDatabase(services.postgresUrl, templateName);
  await migrateQueueTables(connectionString);
  const db = openDatabase({ connectionString });
  await migrateToLatest(db);
  await db.destroy();
  const pool = await createDatabasePool(services.postgresUrl, templateName);
  project.provide('postgres', pool);
  project.provide('redisUrl', services.redisUrl);
  return async () => {
    await destroyDatabasePool(pool);
    await services[Symbol.asyncDispose]();
  };
}
