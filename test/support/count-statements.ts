import type { KyselyPlugin } from 'kysely';
import type { Db } from '../../src/store/db/database.ts';

/** The statements that some work sends to Postgres, and the rows that come back. */
export function countStatements(db: Db) {
  const seen = { statements: 0, rows: 0 };
  const transformQuery: KyselyPlugin['transformQuery'] = ({ node }) => {
    seen.statements++;
    return node;
  };
  const transformResult: KyselyPlugin['transformResult'] = async ({ result }) => {
    seen.rows += result.rows.length;
    return result;
  };
  return { db: db.withPlugin({ transformQuery, transformResult }), seen };
}
