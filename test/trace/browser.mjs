// SPDX-License-Identifier: MIT
//
// browser.mjs DEMO PEERS CHROMIUM: the trace of the demo loads in a browser (page.html). PEERS has
// playwright-core.
import {createRequire} from 'node:module';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync, readFileSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const [demo, peers, executablePath] = process.argv.slice(2);
const {chromium} = createRequire(peers + '/')('playwright-core');
const folder = mkdtempSync(join(tmpdir(), 'uvs-trace-'));
let failed = 0;

async function check(page, claim, file, expected) {
  const result = page.locator('#result');
  await page.evaluate(() => { document.getElementById('result').textContent = 'not yet'; });
  await page.locator('#file').setInputFiles(file);
  await page.waitForFunction(() => document.getElementById('result').textContent !== 'not yet');
  const text = await result.textContent();
  if (expected.test(text)) return;
  failed++;
  console.log(`FAIL ${claim}: ${text}`);
}

const browser = await chromium.launch({executablePath, args: ['--no-sandbox']});
try {
  const page = await browser.newPage();
  const file = join(folder, 'demo.json');
  const broken = join(folder, 'broken.json');
  await page.goto(new URL('page.html', import.meta.url).href);
  execFileSync(demo, ['--fast', '--trace', file]);
  await check(page, 'a trace loads', file, /^[1-9][0-9]* runs, nothing is wrong$/);
  const trace = JSON.parse(readFileSync(file, 'utf8'));
  trace.traceEvents.splice(trace.traceEvents.findIndex(e => e.cat === 'run'), 1);
  writeFileSync(broken, JSON.stringify(trace));
  await check(page, 'the page notices a missing run', broken, /^runs are missing$/);
} finally {
  await browser.close();
  rmSync(folder, {recursive: true});
}
console.log(failed === 0 ? 'browser: the trace of the demo loads' : `browser: ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
