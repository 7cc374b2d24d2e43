import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadModels } from '../../src/agents/load-models.ts';
import { findModel, MODEL_REGISTRY } from '../../src/domain/context/model-registry.ts';

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

test('without a file the models are those of the registry', () => {
  expect(loadModels(undefined)).toEqual(MODEL_REGISTRY);
});

test('a file adds models and changes known ones, and overrides that are given come last', () => {
  const lines =
    '- {provider: openai, model: gpt-5.4, maxOutput: 7000}\n- {provider: own, model: m, contextWindow: 9000}';
  withFile(lines, (file) => {
    const models = loadModels(file, [{ provider: 'own', model: 'm', contextWindow: 8000 }]);
    expect(findModel('openai/gpt-5.4', models)).toMatchObject({ maxOutput: 7000, family: 'openai' });
    expect(findModel('own/m', models)).toMatchObject({ contextWindow: 8000, family: 'unknown' });
    expect(models).toHaveLength(MODEL_REGISTRY.length + 1);
  });
});

test.each([
  ['- {provider: own, model: m, window: 9000}', 'window'],
  ['- {provider: own, contextWindow: 9000}', 'model'],
  ['- {provider: own, model: m, contextWindow: wide}', 'contextWindow'],
  ['{ broken', 'cannot be read as YAML'],
])('%j is refused with the reason', (content, reason) => {
  withFile(content, (file) => expect(() => loadModels(file)).toThrow(reason));
});
