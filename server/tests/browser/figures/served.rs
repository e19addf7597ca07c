//! [`Served`]: the program `windlass serve` on the file of a million tasks.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use windlass::store::Store;
use windlass_server::{Role, Sessions};

use crate::{
    dashboard::{self, FILE},
    many,
    webdriver::Browser,
};

/// How long the program may take until it listens.
const START: Duration = Duration::from_secs(20);

pub(super) struct Served {
    program: Child,
    port: u16,
    host: String,
    path: String,
    pub(super) store: Store,
    _dir: TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.program.kill());
        drop(self.program.wait());
    }
}

impl Served {
    /// Makes the file, and starts the program.
    pub(super) async fn million() -> Self {
        let program = std::env::var_os("WINDLASS_CLI").map(PathBuf::from);
        let program = program.expect("WINDLASS_CLI names a release build of windlass: `cargo xtask bench dashboard` makes it");
        let dir = many::million().await;
        let log = dir.path().join("log");
        let program = Command::new(program)
            .args(["serve", "--no-socket", "--listen", "127.0.0.1:0"])
            .env(
                "WINDLASS_STORE",
                format!("sqlite:{}", dir.path().join(FILE).display()),
            )
            .env("WINDLASS_LOG_FORMAT", "json")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let port = loop {
            let text = fs::read_to_string(&log).unwrap();
            let address = text.split("http://127.0.0.1:").nth(1);
            let port = address.and_then(|rest| rest.split(['"', '/']).next()?.parse().ok());
            if let Some(port) = port {
                break port;
            }
            assert!(
                begun.elapsed() < START,
                "does not listen after {START:?}: {text}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let store = dashboard::store_in(dir.path()).await;
        let sessions = Sessions::new(&store);
        let link = sessions.link("ann".parse().unwrap(), Role::Operate);
        let link = link.await.unwrap();
        Self {
            program,
            port,
            host: link.host,
            path: link.path,
            store,
            _dir: dir,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.host, self.port)
    }

    /// Starts a browser with a session.
    pub(super) async fn browser(&self) -> Browser {
        let browser = Browser::start((1100, 800)).await;
        browser.open(&self.url(&self.path)).await;
        browser.click("button").await;
        browser
            .until("the first page", "location.pathname === '/'")
            .await;
        browser
    }
}
