import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadOverrides } from '../../src/model/load-overrides.ts';

function withFile(content: string, use: (file: string) => void): void {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-models-'));
  try {
    const file = path.join(folder, 'models.yaml');
    writeFileSync(file, content);
    use(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('without a file nothing is said of any model', () => {
  expect(loadOverrides(undefined)).toEqual([]);
});

test('a file says of a model what it names', () => {
  const lines = '- {provider: openai, model: gpt-5.4, maxOutput: 7000}\n- {provider: own, model: m*, tools: false}';
  withFile(lines, (file) => {
    expect(loadOverrides(file)).toEqual([
      { provider: 'openai', model: 'gpt-5.4', maxOutput: 7000 },
      { provider: 'own', model: 'm*', tools: false },
    ]);
  });
});

test.each([
  ['- {provider: own, model: m, window: 9000}', 'window'],
  ['- {provider: own, contextWindow: 9000}', 'model'],
  ['- {provider: own, model: m, contextWindow: wide}', 'contextWindow'],
  ['- {provider: own, model: m, prices: {input: 1}}', 'output'],
  ['{ broken', 'line 1, column 9: not valid YAML: '],
])('%j is refused with the reason', (content, reason) => {
  withFile(content, (file) => expect(() => loadOverrides(file)).toThrow(reason));
});
