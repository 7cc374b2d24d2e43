import { startWordIndexer } from '../../src/recovery/word-indexer.ts';
import { openDatabase } from '../../src/store/db/database.ts';

/** A process that indexes words, of the database that its argument names, until it is killed. */
const [connectionString = ''] = process.argv.slice(2);
startWordIndexer({ db: openDatabase({ connectionString }), log: () => undefined });
