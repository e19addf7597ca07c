//! The pictures of the dashboard in `docs/pictures`: `cargo xtask pictures --dashboard`.

use windlass_server::Role;

use crate::{dashboard::Dashboard, webdriver::Browser};

/// The pictures: page, theme, and size.
const PICTURES: [(&str, &str, &str, (u32, u32)); 6] = [
    ("dashboard-task", "/tasks/sync-0", "light", (1100, 760)),
    ("dashboard-overview", "/", "light", (1100, 560)),
    ("dashboard-tasks-dark", "/tasks", "dark", (1100, 620)),
    ("dashboard-failures", "/failures", "light", (1100, 420)),
    ("dashboard-people", "/people", "light", (1100, 560)),
    ("dashboard-phone", "/tasks/sync-0", "light", (390, 780)),
];

/// Returns the bytes of base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = DIGITS.iter().position(|digit| *digit == byte).unwrap();
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

async fn take(browser: &Browser, folder: &str, name: &str) {
    let bytes = decoded(&browser.picture().await);
    std::fs::write(format!("{folder}/{name}.png"), bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes pictures: cargo xtask pictures --dashboard"]
async fn pictures() {
    let folder = std::env::var("WINDLASS_PICTURES")
        .expect("WINDLASS_PICTURES names the folder of the pictures");
    let mut dashboard = Dashboard::open(Role::Admin).await;
    dashboard.fill().await;
    dashboard.go("/tasks/sync-0").await;
    dashboard.browser.until_text("fetched page").await;
    dashboard
        .browser
        .click("form[action$='/commands/pause'] button")
        .await;
    dashboard.browser.until_text("stopped after ").await;
    let proof = dashboard
        .browser
        .value("location.pathname + location.search")
        .await;
    let proof = proof.as_str().unwrap().to_owned();
    for (name, path, theme, (width, height)) in PICTURES {
        dashboard.browser.resize(width, height).await;
        dashboard.browser.theme(theme).await;
        dashboard
            .go(if path == "/tasks/sync-0" {
                &proof
            } else {
                path
            })
            .await;
        dashboard
            .browser
            .until(
                "the script",
                "document.documentElement.dataset.live === 'on'",
            )
            .await;
        // The fade of the proof has ended.
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        take(&dashboard.browser, &folder, name).await;
    }
    // More, to be looked at, where a folder for them is named.
    if let Ok(folder) = std::env::var("WINDLASS_PICTURES_OF_ALL") {
        for (name, path) in crate::pages::PAGES {
            for (theme, width) in [("light", 1100), ("dark", 390)] {
                dashboard.browser.resize(width, 900).await;
                dashboard.browser.theme(theme).await;
                dashboard.go(path).await;
                take(
                    &dashboard.browser,
                    &folder,
                    &format!("{name}-{theme}-{width}"),
                )
                .await;
            }
        }
    }
    dashboard.close().await;
}
