//! The figures of docs/internals/measurements.md: `cargo xtask bench dashboard`. They need the release program, which
//! serves a store of a million tasks beside the browser.
#![allow(clippy::print_stdout, reason = "the figures are printed")]

mod followed;
mod served;

use crate::webdriver::Browser;
use served::Served;

/// How often each page is opened.
const ROUNDS: usize = 7;

/// The pages, and those that have the frame and the style of the list with fewer rows.
const PAGES: [(&str, &str); 10] = [
    ("overview", "/"),
    ("tasks", "/tasks"),
    ("tasks, 10 rows", "/tasks?limit=10"),
    ("tasks, no row", "/tasks?prefix=none"),
    (
        "tasks of a kind with a label",
        "/tasks?kind=mail&label=team=t7",
    ),
    ("task", "/tasks/t-0777003"),
    ("failures", "/failures"),
    ("people", "/people"),
    ("search by a prefix of 100,000 ids", "/search?q=t-07"),
    ("limits", "/limits"),
];

/// What a page took: the bytes, and the milliseconds from the request to the last byte and from the start of the navigation to the
/// first paint.
#[derive(Default)]
struct Taken {
    bytes: Vec<f64>,
    last_byte: Vec<f64>,
    paint: Vec<f64>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Opens a page, and adds what it took.
async fn open(browser: &Browser, url: &str, taken: &mut Taken) {
    browser.open(url).await;
    browser
        .until(
            "the first paint",
            "performance.getEntriesByName('first-contentful-paint').length === 1",
        )
        .await;
    let read = "(() => { const [page] = performance.getEntriesByType('navigation'); \
                const [paint] = performance.getEntriesByName('first-contentful-paint'); \
                return [page.decodedBodySize, page.responseEnd - page.requestStart, paint.startTime]; })()";
    let read = browser.value(read).await;
    let number = |n: usize| read[n].as_f64().unwrap();
    taken.bytes.push(number(0));
    taken.last_byte.push(number(1));
    taken.paint.push(number(2));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: cargo xtask bench dashboard"]
async fn figures() {
    let served = Served::million().await;
    let browser = served.browser().await;
    println!(
        "{:<36} {:>9} {:>14} {:>10} {:>10}",
        "page", "bytes", "last byte, ms", "paint, ms", "least, ms"
    );
    for (name, path) in PAGES {
        let mut taken = Taken::default();
        // The first one fills caches.
        open(&browser, &served.url(path), &mut Taken::default()).await;
        for _ in 0..ROUNDS {
            open(&browser, &served.url(path), &mut taken).await;
        }
        println!(
            "{name:<36} {:>9} {:>14.1} {:>10.0} {:>10.0}",
            median(&mut taken.bytes),
            median(&mut taken.last_byte),
            median(&mut taken.paint),
            // Sorted by the median.
            taken.paint[0]
        );
    }
    followed::measure(&served, &browser).await;
}
