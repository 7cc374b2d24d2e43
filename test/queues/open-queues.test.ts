import { expect, inject, test } from 'vitest';
import { openQueues } from '../../src/queues/open-queues.ts';

test('queues over a Postgres without their tables say how they are made', async () => {
  const opened = openQueues({ queuePrefix: 'baton' }, inject('postgres').adminUrl, () => undefined);
  await expect(opened).rejects.toMatchObject({
    code: 'config_invalid',
    message:
      'the database lacks the tables of the queues, which are in Postgres without REDIS_URL: run "npm run -s baton -- migrate"',
  });
});
