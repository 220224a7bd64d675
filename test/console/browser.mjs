// SPDX-License-Identifier: MIT
//
// browser.mjs STAGE PEERS CHROMIUM [--images FOLDER] [--proof]: the console's page in a browser.
//
// PEERS has playwright-core (.ci/browser-peers). With --images, two screenshots are written. With
// --proof, the loop's heartbeat beside ten open pages is compared with none; nothing else is tested.
import {createRequire} from 'node:module';
import {createServer} from 'node:http';
import {spawn} from 'node:child_process';

const [stage, peers, executablePath, ...more] = process.argv.slice(2);
const {chromium} = createRequire(peers + '/')('playwright-core');
const TOKEN = 'correct-horse-battery';
let passed = 0, failed = 0;
function check(claim, actual, expected = true) {
  if (JSON.stringify(actual) === JSON.stringify(expected)) {
    passed++;
    return;
  }
  failed++;
  console.log(`FAIL ${claim}\n--- expected\n${JSON.stringify(expected)}\n--- actual\n${JSON.stringify(actual)}`);
}

async function with_stage(args, each) {
  const p = spawn(stage, args, {stdio: ['ignore', 'pipe', 'inherit']});
  const ended = new Promise(done => p.once('exit', done));
  try {
    const url = await new Promise((done, fail) => {
      p.stdout.once('data', data => done(String(data).trim()));
      p.once('exit', () => fail(new Error('the stage has ended')));
    });
    await each(url);
  } finally {
    p.kill('SIGTERM');
    check('the stage ends', await ended, 0);
  }
}

// Waits until the claim holds; a slow machine only takes longer.
async function becomes(claim, look, expected = true) {
  const end = Date.now() + 30000;
  let is;
  do {
    is = await look();
    if (JSON.stringify(is) === JSON.stringify(expected)) break;
    await new Promise(done => setTimeout(done, 100));
  } while (Date.now() < end);
  check(claim, is, expected);
}

// A page that complains: about errors, refused scripts, dialogs, requests elsewhere.
async function open(context, url, claim) {
  const page = await context.newPage();
  page.on('pageerror', e => check(claim + ': no error', String(e), ''));
  page.on('console', m => { if (m.type() === 'error' && !/409|Trusted/.test(m.text())) check(claim + ': no complaint', m.text(), ''); });
  page.on('dialog', d => { check(claim + ': no dialog', d.message(), ''); d.dismiss(); });
  page.on('request', r => { if (!r.url().startsWith(url) && !r.url().startsWith('data:')) check(claim + ': no request elsewhere', r.url(), ''); });
  await page.goto(url);
  return page;
}

const tile = (page, name) => page.locator('.tile', {hasText: new RegExp('^' + name + '[0-9]')}).locator('b').textContent();
const names = page => page.locator('#task-rows td.name').allTextContents();
const row = (page, name) => page.locator('#task-rows tr', {has: page.locator('td.name', {hasText: new RegExp('^' + name + '$')})});

// ---- the page

async function loads_and_is_live(page) {
  await becomes('it is connected', () => page.locator('#link').textContent(), 'live');
  check('title', await page.title(), 'uvsched console');
  const before = await tile(page, 'runs');
  await becomes('it updates by itself', async () => (await tile(page, 'runs')) !== before);
  check('the page is small', (await page.content()).length < 200000);
}

const hex = {runners: 'rgb(230, 159, 0)', loop: 'rgb(213, 94, 0)'};
async function shows_late_tasks_with_their_culprit(page) {
  for (const [task, culprit] of [['victim', 'runners'], ['tick', 'loop']]) {
    await becomes(`${task} is late because of ${culprit}`,
      async () => (await row(page, task).locator('td').nth(8).textContent().catch(() => '')), culprit);
    const swatch = row(page, task).locator('.swatch');
    check(`${culprit}: its colour`, await swatch.evaluate(e => getComputedStyle(e).backgroundColor), hex[culprit]);
    check(`${culprit}: and a pattern`, await swatch.evaluate(e => getComputedStyle(e).backgroundImage.startsWith('url(')));
  }
  await page.getByText('Late runs as a table').click();
  await becomes('the table of late runs has it, too', () =>
    page.locator('#late-rows tr', {hasText: 'victim'}).first().locator('td').nth(4).textContent().catch(() => ''), 'runners');
  await page.getByText('Late runs as a table').click();
  // The canvas has the colour of `runners`.
  await becomes('the timeline is painted in that colour', () => page.evaluate(() => {
    const c = document.getElementById('timeline'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    for (let i = 0; i < d.length; i += 4) if (d[i] === 230 && d[i + 1] === 159 && d[i + 2] === 0) return true;
    return false;
  }));
  await page.evaluate(() => take('runs', {runs: [], recording: true, left_out: 1234, now_ns: stats.now_ns}));
  await becomes('a line tells that runs were left out', async () =>
    /left out 1,234, late/.test(await page.locator('#recording').textContent()));
  check('every culprit has a name beside its colour', await page.locator('#legend li').count(), 8);
  const looks = await page.locator('#legend .swatch').evaluateAll(all => all.map(e => e.style.backgroundColor + e.style.backgroundImage));
  check('no two culprits look alike', new Set(looks).size, 8);
}

async function sorts_and_filters(page) {
  await page.getByRole('button', {name: 'Name'}).click();
  await becomes('sorted by name', async () => { const n = await names(page); return n.length > 10 && n.indexOf('flaky') < n.indexOf('tick') && n.indexOf('tick') < n.indexOf('victim'); });
  check('said to screen readers', await page.locator('th', {hasText: 'Name'}).getAttribute('aria-sort'), 'ascending');
  await page.getByRole('button', {name: 'Name'}).click();
  await becomes('and the other way round', async () => { const n = await names(page); return n.indexOf('victim') < n.indexOf('tick'); });
  check('said', await page.locator('th', {hasText: 'Name'}).getAttribute('aria-sort'), 'descending');
  await page.getByLabel('Name', {exact: true}).fill('VICT');
  await becomes('filtered by name', () => names(page), ['victim']);
  await page.getByLabel('Name', {exact: true}).fill('');
  await page.locator('#state').selectOption('failing');
  await becomes('filtered by state', () => names(page), ['flaky']);
  await page.locator('#state').selectOption('any');
  await page.getByRole('button', {name: 'Late'}).click();
  await becomes('all again', async () => (await names(page)).length > 10);
}

async function works_with_the_keyboard(page) {
  await page.locator('#timeline').focus();
  await becomes('arrows choose a late run, and its text is spoken', async () => {
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    return /late because of|held up/.test(await page.locator('#say').textContent());
  });
  check('and shown', await page.locator('#tip').isVisible());
  await page.keyboard.press('Escape');
  check('Escape hides it', await page.locator('#tip').isVisible(), false);
  await page.locator('h1').click();
  const seen = new Set();
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press('Tab');
    seen.add(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent.slice(0, 9)));
  }
  for (const id of ['timeline', 'name', 'state', 'Name']) check(`Tab reaches ${id}`, seen.has(id));
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, select, canvas, [role=region]')]
    .filter(e => !e.hidden && !(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby')).map(e => e.outerHTML));
  check('everything has a name', nameless, []);
}

async function hostile_names_are_text(page) {
  await becomes('markup is shown as it is', async () => (await names(page)).includes('<img src=x onerror=x()>'));
  check('no element came out of a name', await page.locator('#task-rows img, #task-rows script').count(), 0);
  const all = (await names(page)).join('');
  check('controls and turns of direction are replaced', /[\x00-\x1f\u202a-\u202e\u2028]/.test(all), false);
  const refused = await page.evaluate(() => {
    const script = document.createElement('script');
    try {
      script.textContent = 'window.hacked = 1';
      document.body.append(script);
      document.body.setAttribute('onclick', 'window.hacked = 1');
      document.body.click();
    } catch { /* refused even earlier */ }
    try {
      document.body.insertAdjacentHTML('beforeend', '<p>x');
      return 'HTML was taken';
    } catch {
      return window.hacked === undefined;
    }
  });
  check('the policy refuses other scripts', refused);
}

async function acts_with_the_token(page) {
  check('no actions without the token', await page.getByRole('button', {name: 'Pause all'}).isVisible(), false);
  await page.getByLabel('Token').fill('wrong-wrong-wrong');
  await page.getByLabel('Token').press('Enter');
  await page.getByRole('button', {name: 'Pause all'}).click();
  await becomes('a wrong token is told', async () => /token/.test(await page.locator('#alert').textContent()));
  await page.reload();
  await page.getByLabel('Token').fill(TOKEN);
  await page.getByLabel('Token').press('Enter');
  await page.getByRole('button', {name: 'Pause all'}).click();
  await page.getByRole('button', {name: 'Resume all'}).click();
  await becomes('paused and resumed', () => page.getByRole('button', {name: 'Pause all'}).isVisible());
  await page.locator('h1').hover();
  await page.getByLabel('Name', {exact: true}).fill('img');
  await becomes('one task', async () => (await names(page)).length, 1);
  await page.getByRole('button', {name: 'Pause <img src=x onerror=x()>'}).click();
  await page.locator('h1').click();
  await becomes('it is paused', async () => /paused/.test(await page.locator('#task-rows').textContent()));
  const cancel = page.getByRole('button', {name: 'Cancel <img src=x onerror=x()>'});
  await cancel.click();
  check('it asks once more', await cancel.textContent(), 'Sure?');
  await cancel.click();
  await page.locator('h1').click();
  await becomes('it is cancelled', async () => (await names(page)).length, 0);
  await page.getByLabel('Name', {exact: true}).fill('');
  if (await page.locator('#jobs').isVisible()) {
    await page.locator('#job-state').selectOption('dead');
    await becomes('dead letters with their errors', async () => (await page.locator('#job-rows').textContent()).includes('<b>no such customer</b>'));
    const answer = page.waitForResponse(r => r.url().includes('jobs/redrive'));
    await page.locator('#job-rows').getByRole('button', {name: 'Redrive'}).first().click();
    check('a dead letter is put back', (await answer).status(), 200);
  }
}

async function the_trace_is_what_viewers_read(page) {
  const wrong = await page.evaluate(async () => {
    const trace = await (await fetch('trace.json')).json(), events = Array.isArray(trace) ? trace : trace.traceEvents;
    const slices = events.filter(e => e.ph === 'X'), by = {}, wrong = [];
    if (slices.length < 10) wrong.push('only ' + slices.length + ' slices');
    for (const e of slices) {
      if (!(e.dur >= 0) || !(e.ts >= 0)) wrong.push(e);
      (by[e.pid + ' ' + e.tid] = by[e.pid + ' ' + e.tid] || []).push(e);
    }
    return wrong.slice(0, 5);
  });
  check('the trace', wrong, []);
}

// ---- a page of somebody else

async function foreign_pages_reach_nothing(browser, url) {
  const evil = createServer((request, answer) => {
    answer.setHeader('Content-Type', 'text/html');
    answer.end(`<!doctype html><iframe id="f" src="${url}"></iframe>
      <form id="post" method="post" action="${url}pause" target="f2"></form><iframe name="f2"></iframe>`);
  }).listen(0, '127.0.0.1');
  await new Promise(done => evil.once('listening', done));
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${evil.address().port}/`);
  const got = await page.evaluate(async base => {
    const result = [];
    const attempt = async (claim, f) => { try { result.push([claim, await f()]); } catch { result.push([claim, 'refused']); } };
    for (const path of ['stats.json', 'tasks.json', 'events', 'trace.json', '']) {
      await attempt('read ' + path, async () => (await fetch(base + path)).status);
      await attempt('opaque ' + path, async () => (await (await fetch(base + path, {mode: 'no-cors'})).text()).length > 0);
      await attempt('post ' + path, async () => (await fetch(base + path, {method: 'POST', headers: {Authorization: 'Bearer x'}})).status);
    }
    await attempt('stream', () => new Promise((done, fail) => { const s = new EventSource(base + 'events'); s.onmessage = () => done('read'); s.onerror = fail; }));
    await attempt('script', () => new Promise((done, fail) => { const s = document.createElement('script'); s.src = base + 'stats.json'; s.onload = () => done('loaded'); s.onerror = fail; document.body.append(s); }));
    await attempt('beacon', async () => { navigator.sendBeacon(base + 'pause', 'x'); return 'refused'; });
    document.getElementById('post').submit();
    await new Promise(done => setTimeout(done, 1000));
    return result.filter(r => r[1] !== 'refused' && r[1] !== false);
  }, url);
  check('another page can read and do nothing', got, []);
  const frame = page.mainFrame().childFrames()[0];
  check('nor show the page in a frame', await frame.evaluate(() => document.querySelector('h1')?.textContent === 'uvsched').catch(() => false), false);
  const own = await (await browser.newPage()).goto(url + 'stats.json');
  check('and the scheduler is not paused', (await own.json()).paused, false);
  await page.close();
  evil.close();
  evil.closeAllConnections();
}

// ---- many tasks, many pages

async function many_tasks(browser) {
  await with_stage(['tasks=100000', 'quiet=1'], async url => {
    const page = await open(browser, url, 'many');
    await becomes('a hundred thousand tasks', async () => (await page.locator('#matched').textContent()), '1 to 50 of 100,001');
    await page.getByRole('button', {name: 'Name'}).click();
    await becomes('sorted', async () => (await names(page)).slice(0, 3), ['filler-0', 'filler-1', 'filler-10']);
    await page.getByRole('button', {name: 'Next'}).click();
    await becomes('the next page', () => page.locator('#matched').textContent(), '51 to 100 of 100,001');
    await page.getByLabel('Name', {exact: true}).fill('filler-99999');
    await becomes('filtered', () => names(page), ['filler-99999']);
    check('few elements', await page.evaluate(() => document.querySelectorAll('*').length) < 3000);
    const before = await tile(page, 'runs');
    await becomes('live meanwhile', async () => (await tile(page, 'runs')) !== before);
    await page.close();
  });
}

async function ten_pages(browser) {
  await with_stage(['quiet=1'], async url => {
    const context = await browser.newContext(), pages = [];
    for (let i = 0; i < 10; i++) pages.push(await open(context, url, 'page ' + i));
    for (const [i, page] of pages.entries()) {
      await becomes(`page ${i} of ten is live`, () => page.locator('#link').textContent(), 'live');
      const before = await tile(page, 'runs');
      await becomes(`page ${i} of ten updates`, async () => (await tile(page, 'runs')) !== before);
    }
    await pages[0].close(); // it may have been the one that reads the events
    const before = await tile(pages[9], 'runs');
    await becomes('the others go on without the first', async () => (await tile(pages[9], 'runs')) !== before);
    await context.close();
  });
}

async function images(browser, folder) {
  await with_stage(['plain=1', 'token=' + TOKEN], async url => {
    const light = await browser.newPage({viewport: {width: 1200, height: 1000}, colorScheme: 'light'});
    const dark = await browser.newPage({viewport: {width: 1200, height: 1000}, colorScheme: 'dark'});
    for (const page of [light, dark]) {
      await page.goto(url);
      await page.getByLabel('Token').fill(TOKEN);
      await page.getByLabel('Token').press('Enter');
    }
    await light.waitForTimeout(62000);
    await light.screenshot({path: folder + '/console-light.png'});
    await dark.screenshot({path: folder + '/console-dark.png'});
  });
}

// ---- the proof

// How often the heartbeat was late by each bound or less, since the start.
async function buckets(url) {
  const found = {};
  for (const line of (await (await fetch(url + 'metrics')).text()).split('\n')) {
    const m = /^uvsched_named_run_late_seconds_bucket\{.*name="heartbeat",le="([0-9.]+)"\} (\d+)/.exec(line);
    if (m) found[m[1]] = Number(m[2]);
  }
  return found;
}

// p99 of the lateness in 20 s, while so many pages are open: a power of two of ns.
async function heartbeat(browser, pages) {
  let p99;
  await with_stage(['quiet=1'], async url => {
    const context = await browser.newContext();
    for (let i = 0; i < pages; i++) {
      const page = await open(context, url, 'page ' + i);
      await becomes(`page ${i} is live`, () => page.locator('#link').textContent(), 'live');
    }
    const before = await buckets(url);
    await new Promise(done => setTimeout(done, 20000));
    const after = await buckets(url), bounds = Object.keys(after).sort((a, b) => a - b);
    const all = Math.max(...bounds.map(le => after[le] - before[le]));
    check('it beats', all > 500);
    p99 = Number(bounds.find(le => after[le] - before[le] >= 0.99 * all));
    await context.close();
  });
  return p99;
}

async function prove(browser) {
  const none = await heartbeat(browser, 0), ten = await heartbeat(browser, 10);
  console.log(`the loop's heartbeat, p99 late: below ${none * 1e3} ms without a page, below ${ten * 1e3} ms beside ten pages`);
  check('at most twice', ten <= 2 * none);
}

const browser = await chromium.launch({executablePath, args: ['--no-sandbox']});
try {
  if (more.includes('--proof')) {
    await prove(browser);
  } else {
    await with_stage(['token=' + TOKEN], async url => {
      const page = await open(await browser.newContext({viewport: {width: 1200, height: 1000}}), url, 'page');
      await loads_and_is_live(page);
      await shows_late_tasks_with_their_culprit(page);
      await sorts_and_filters(page);
      await works_with_the_keyboard(page);
      await hostile_names_are_text(page).catch(e => check('hostile names', String(e), ''));
      await page.close();
      const other = await (await browser.newContext({viewport: {width: 360, height: 700}})).newPage();
      await other.goto(url);
      await acts_with_the_token(other);
      await the_trace_is_what_viewers_read(other);
      check('a phone scrolls in one direction only', await other.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      await other.close();
      await foreign_pages_reach_nothing(browser, url);
    });
    await many_tasks(browser);
    await ten_pages(browser);
    if (more.includes('--images')) await images(browser, more[more.indexOf('--images') + 1]);
  }
} finally {
  await browser.close();
}
console.log(`${passed} checks passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
