import { describe, expect, test } from 'vitest';
import type { ProblemCode } from '../../src/api/problems.ts';
import { ProblemError, problemResponse } from '../../src/http/bodies/problem.ts';

const errorOf = async (code: ProblemCode, path: string): Promise<Record<string, unknown>> => {
  const problem = new ProblemError(code, 'No.', { errors: [{ path: 'model', message: 'No.' }] });
  return (await problemResponse(problem, path).json()) as Record<string, unknown>;
};

describe('a problem', () => {
  test.each<[ProblemCode, string, string]>([
    ['unauthenticated', 'invalid_api_key', 'authentication_error'],
    ['forbidden', 'insufficient_permissions', 'permission_error'],
    ['rate_limited', 'rate_limit_exceeded', 'rate_limit_error'],
    ['quota_exceeded', 'insufficient_quota', 'insufficient_quota'],
    ['not_found', 'model_not_found', 'invalid_request_error'],
    ['invalid_request', 'invalid_request', 'invalid_request_error'],
    ['store_unavailable', 'store_unavailable', 'server_error'],
  ])('%s is %s to clients of OpenAI’s API', async (code, name, type) => {
    for (const path of ['/v1/chat/completions', '/v1/models', '/v1/models/x']) {
      const body = await errorOf(code, path);
      expect(body).toMatchObject({ code, error: { message: 'No.', code: name, type, param: 'model' } });
    }
  });

  test('is a problem and nothing else to all others', async () => {
    for (const path of ['/v1/sessions', '/v1/modelsx', '/v1/agents']) {
      expect(await errorOf('unauthenticated', path)).not.toHaveProperty('error');
    }
  });
});
