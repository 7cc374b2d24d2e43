import { parentPort, workerData } from 'node:worker_threads';
import { checkOutput } from '../domain/run/output-check.ts';

const { schema, value } = workerData;
parentPort?.postMessage(checkOutput(JSON.parse(schema), JSON.parse(value)));
