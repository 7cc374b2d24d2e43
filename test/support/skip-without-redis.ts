import { beforeEach, inject } from 'vitest';

beforeEach(({ skip }) => skip(inject('redisUrl') === null, 'no Redis here'));
