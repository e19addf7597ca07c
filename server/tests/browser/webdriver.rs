//! [`Browser`]: a Chromium that a test steers, by the protocol WebDriver. It is JSON by HTTP, and this is all of it that the tests need.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

/// How long the driver may take for one command.
const COMMAND: Duration = Duration::from_secs(30);
/// How long a page may take to become what a test waits for.
const WAIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(25);
/// The name by which WebDriver calls an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The key Tab, and the key Enter.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser at the end of the session.
        let end = format!(
            "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
            self.session, self.port
        );
        if let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) {
            drop(stream.set_read_timeout(Some(COMMAND)));
            drop(stream.write_all(end.as_bytes()));
            drop(stream.read(&mut [0; 1024]));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

/// Returns a program: the one that a variable names, else by its name.
fn program(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| Path::new(name).to_path_buf(), PathBuf::from)
}

/// How often the start of a driver is tried.
const STARTS: usize = 5;

/// Starts a driver, and returns the port on which it listens.
fn start() -> (Child, u16) {
    let started = (0..STARTS).find_map(|_| try_start());
    started.expect("the driver says on which port it listens")
}

/// Starts a driver; `None` when it could not listen.
fn try_start() -> Option<(Child, u16)> {
    let path = program("WINDLASS_CHROMEDRIVER", "chromedriver");
    let mut command = Command::new(&path);
    command
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let spawned = command.spawn();
    let mut driver = spawned.unwrap_or_else(|error| {
        panic!(
            "could not start {}: {error}; `cargo xtask browser` gets it",
            path.display()
        )
    });
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.ok()?;
        line.split_once("successfully on port ")?
            .1
            .trim_end_matches('.')
            .parse()
            .ok()
    });
    std::thread::spawn(move || lines.for_each(drop));
    match port {
        Some(port) => Some((driver, port)),
        // It takes a port that is free for IPv4, and another process may have it for IPv6.
        None => {
            driver.wait().unwrap();
            None
        }
    }
}

impl Browser {
    /// Starts a browser with a window of this size.
    pub(crate) async fn start((width, height): (u32, u32)) -> Self {
        let (driver, port) = start();
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
        };
        let binary = program("WINDLASS_CHROMIUM", "/usr/bin/chromium");
        let options = json!({
            "binary": binary,
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                format!("--window-size={width},{height}")],
        });
        let capabilities = json!({ "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        } });
        let opened = browser
            .send("POST", "/session", &json!({ "capabilities": capabilities }))
            .await;
        browser.session = opened["sessionId"].as_str().unwrap().to_owned();
        browser.resize(width, height).await;
        browser
    }

    /// Sends a command to the driver, and returns its answer.
    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let sent = timeout(COMMAND, self.exchange(method, path, body)).await;
        let answer = sent.unwrap_or_else(|_| {
            panic!("{method} {path}: the driver did not answer in {COMMAND:?}")
        });
        if let Some(error) = answer["error"].as_str() {
            panic!("{method} {path} {body}: {error}: {}", answer["message"]);
        }
        answer
    }

    async fn exchange(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut read, mut part) = (Vec::new(), vec![0; 65536]);
        loop {
            let bytes = stream.read(&mut part).await.unwrap();
            read.extend_from_slice(&part[..bytes]);
            let text = String::from_utf8_lossy(&read);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse::<usize>())
                });
                let length = length.expect("the driver gives a length").unwrap();
                if body.len() >= length {
                    let mut answer: Value = serde_json::from_str(body).unwrap();
                    return answer["value"].take();
                }
            }
            assert!(
                bytes > 0,
                "{method} {path}: the driver closed the connection"
            );
        }
    }

    async fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.send(method, &format!("/session/{}{path}", self.session), body)
            .await
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) async fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url })).await;
    }

    /// Runs a script in the page, and returns what it returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.command(
            "POST",
            "/execute/sync",
            &json!({ "script": script, "args": [] }),
        )
        .await
    }

    /// Returns the value of an expression.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};")).await
    }

    /// Returns the text of the page.
    pub(crate) async fn text(&self) -> String {
        self.value("document.body.innerText")
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, what: &str, expression: &str) {
        let end = Instant::now() + WAIT;
        while self.value(expression).await != json!(true) {
            if Instant::now() > end {
                panic!(
                    "waited {WAIT:?} for this: {what}; the page is\n{}",
                    self.text().await
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the page has a text.
    pub(crate) async fn until_text(&self, text: &str) {
        let text = Value::from(text);
        self.until(
            &format!("the text {text}"),
            &format!("document.body.innerText.includes({text})"),
        )
        .await;
    }

    async fn element(&self, css: &str) -> String {
        let found = self
            .command(
                "POST",
                "/element",
                &json!({ "using": "css selector", "value": css }),
            )
            .await;
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Clicks an element, by a selector.
    pub(crate) async fn click(&self, css: &str) {
        let element = self.element(css).await;
        self.command("POST", &format!("/element/{element}/click"), &json!({}))
            .await;
    }

    /// Types into an element, in place of what it has.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.command("POST", &format!("/element/{element}/clear"), &json!({}))
            .await;
        self.command(
            "POST",
            &format!("/element/{element}/value"),
            &json!({ "text": text }),
        )
        .await;
    }

    /// Chooses the option of a `select` that begins with this text.
    pub(crate) async fn choose(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        let typed = json!({ "text": text });
        self.command("POST", &format!("/element/{element}/value"), &typed)
            .await;
    }

    /// Presses keys, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        for key in keys.chars().map(String::from) {
            let steps =
                json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
            let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": steps }] });
            self.command("POST", "/actions", &actions).await;
        }
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics)
            .await;
    }

    /// Shows pages as in a dark or a light system.
    pub(crate) async fn theme(&self, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        )
        .await;
    }

    /// Sends a command of Chromium's own protocol.
    pub(crate) async fn devtools(&self, command: &str, params: &Value) -> Value {
        let body = json!({ "cmd": command, "params": params });
        self.command("POST", "/goog/cdp/execute", &body).await
    }

    /// Opens another tab, and returns its name.
    pub(crate) async fn new_tab(&self) -> String {
        let tab = self
            .command("POST", "/window/new", &json!({ "type": "tab" }))
            .await;
        tab["handle"].as_str().unwrap().to_owned()
    }

    /// Returns the name of the tab.
    pub(crate) async fn tab(&self) -> String {
        self.command("GET", "/window", &Value::Null)
            .await
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) async fn switch_to(&self, tab: &str) {
        self.command("POST", "/window", &json!({ "handle": tab }))
            .await;
    }

    pub(crate) async fn close_tab(&self) {
        self.command("DELETE", "/window", &json!({})).await;
    }

    /// Takes what the browser has logged since: errors of scripts, and what the policy has stopped.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let lines = self
            .command("POST", "/se/log", &json!({ "type": "browser" }))
            .await;
        let lines = lines.as_array().cloned().unwrap_or_default();
        let severe = lines.iter().filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].to_string()).collect()
    }

    /// Returns a picture of the window, as base64.
    pub(crate) async fn picture(&self) -> String {
        let taken = self.command("GET", "/screenshot", &Value::Null).await;
        taken.as_str().unwrap().to_owned()
    }
}
