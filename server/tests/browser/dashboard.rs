//! [`Dashboard`]: a dashboard with some tasks, and a browser with a session.

use std::{net::SocketAddr, path::Path, time::Duration};

use serde_json::json;
use tempfile::TempDir;
use windlass::{
    AwaitedSignal, Client, Command, Json, Message, NewTask, Runner, TaskContext, store::Store,
};
use windlass_server::{Listen, Role, Server, Serving, Sessions};

use crate::webdriver::Browser;

pub(crate) struct Dashboard {
    pub(crate) client: Client,
    store: Store,
    serving: Option<Serving>,
    address: SocketAddr,
    runner: Option<Runner>,
    pub(crate) browser: Browser,
    host: String,
    _dir: TempDir,
}

/// Runs until it is told to stop, with a checkpoint and a line in its log, and answers signals.
async fn patient(task: TaskContext) -> Message {
    task.log(format!("fetched page {}", task.attempt()));
    drop(
        task.checkpoint(&json!({"page": 41, "cursor": "b64:9f3a"}))
            .await,
    );
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => if let Command::Signal(signal) = command {
                drop(task.answer(&signal, &json!({"approved": true})).await);
            },
            stop = task.stop_requested() => return stop.message(),
        }
    }
}

/// Runs three times, and then sleeps for long.
async fn poll(task: TaskContext) -> Message {
    let runs: u32 = task.data().ok().flatten().unwrap_or(0);
    let next = match runs {
        0..12 => Message::sleep_for(Duration::from_millis(2)),
        _ => Message::sleep_for(Duration::from_secs(7200)),
    };
    next.with_data(&(runs + 1))
}

/// Asks whether it may deploy, and completes with the answer.
async fn deploy(task: TaskContext) -> Message {
    while let Some(command) = task.commands().try_next() {
        if let Command::Signal(signal) = command {
            let payload = signal.payload::<Json>().unwrap_or_else(|_| Json::null());
            return Message::complete_with(&payload).answer(&signal, &"noted");
        }
    }
    let schema = json!({"type": "object", "required": ["approved", "share"], "properties": {
        "approved": {"type": "boolean", "title": "Deploy it?"},
        "share": {"type": "integer", "title": "Share of the traffic in %", "minimum": 1, "maximum": 100, "default": 5},
        "ring": {"enum": ["canary", "region", "everywhere"], "title": "Where"},
        "reason": {"type": "string", "title": "Reason", "description": "For the log", "maxLength": 100},
    }});
    let asked = AwaitedSignal::new("approve")
        .with_text("Deploy version 1.4? The tests have passed, and the queue is empty.")
        .with_schema(Json::new("schema", &schema).ok());
    Message::wait_for_signal(asked)
}

/// The name of the file in the folder of a dashboard.
pub(crate) const FILE: &str = "tasks.db";

/// Opens the store of a folder.
pub(crate) async fn store_in(dir: &Path) -> Store {
    let url = format!("sqlite:{}", dir.join(FILE).display());
    Store::open(&url).await.unwrap()
}

/// Starts a node with all kinds.
pub(crate) async fn node(store: &Store) -> Runner {
    let runner = Runner::builder(store)
        .node("worker-1")
        .handler("sync", patient)
        .handler("poll", poll)
        .handler("deploy", deploy)
        .handler("mail", async |_: TaskContext| {
            Message::fail("could not connect to 10.0.0.7:25: connection refused")
        })
        .start();
    runner.await.unwrap()
}

impl Dashboard {
    /// Opens a dashboard with a new file, and the session of a role.
    pub(crate) async fn open(role: Role) -> Self {
        Self::at(tempfile::tempdir().unwrap(), role).await
    }

    /// Opens a dashboard with the file in a folder, and the session of a role.
    pub(crate) async fn at(dir: TempDir, role: Role) -> Self {
        let store = store_in(dir.path()).await;
        let client = Client::new(&store);
        let server = Server::builder(&store).build();
        let at: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let serving = server.listen([Listen::Loopback(at)]).await.unwrap();
        let address = serving.addresses()[0];
        let browser = Browser::start((1100, 800)).await;
        let mut dashboard = Self {
            client,
            store,
            serving: Some(serving),
            address,
            runner: None,
            browser,
            host: String::new(),
            _dir: dir,
        };
        dashboard.begin(role).await;
        dashboard
    }

    /// Opens the session of a role, by its link and its button.
    async fn begin(&mut self, role: Role) {
        let link = Sessions::new(&self.store)
            .link("ann".parse().unwrap(), role)
            .await
            .unwrap();
        self.host = link.host;
        self.browser.open(&self.url(&link.path)).await;
        self.browser.click("button").await;
        self.browser
            .until("the first page", "location.pathname === '/'")
            .await;
    }

    /// Starts a node.
    pub(crate) async fn start_node(&mut self) {
        self.runner = Some(node(&self.store).await);
    }

    /// Submits tasks, and waits until they are in their states.
    pub(crate) async fn fill(&mut self) {
        self.start_node().await;
        for n in 0..4 {
            let task = NewTask::new("sync")
                .id(format!("sync-{n}"))
                .label("team", "billing");
            let task = task.props(
                &json!({"source": format!("https://feed{n}.example.com"), "since": "2026-01-01"}),
            );
            self.client.submit(task).await.unwrap();
            let task = NewTask::new("mail")
                .id(format!("mail-{n}"))
                .props(&json!({"to": "ann@example.com"}));
            self.client.submit(task).await.unwrap();
        }
        self.client
            .submit(NewTask::new("poll").id("poll-prices"))
            .await
            .unwrap();
        self.client
            .submit(NewTask::new("report").id("report-2026-q3"))
            .await
            .unwrap();
        self.client
            .submit(
                NewTask::new("report")
                    .id("report-sum")
                    .after(["report-2026-q3"]),
            )
            .await
            .unwrap();
        self.client
            .submit(NewTask::new("deploy").id("deploy-1.4"))
            .await
            .unwrap();
        self.client.command("sync-1", Command::Pause).await.unwrap();
        self.client.command("sync-2", Command::Kill).await.unwrap();
        for (id, state) in [
            ("mail-3", "failed"),
            ("deploy-1.4", "paused"),
            ("sync-1", "paused"),
            ("sync-2", "killed"),
        ] {
            self.until_state(id, state).await;
        }
    }

    /// Waits until a task is in a state.
    pub(crate) async fn until_state(&self, id: &str, state: &str) {
        let end = tokio::time::Instant::now() + Duration::from_secs(15);
        loop {
            let record = self.client.get(id).await.unwrap();
            let now = record.state.as_ref().unwrap().code().to_string();
            if now == state {
                return;
            }
            assert!(
                tokio::time::Instant::now() < end,
                "'{id}' is {now}, and should be {state}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.host, self.address.port())
    }

    /// Shows a page.
    pub(crate) async fn go(&self, path: &str) {
        self.browser.open(&self.url(path)).await;
    }

    /// Stops the server, and closes every connection.
    pub(crate) async fn cut(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.shutdown(Duration::from_millis(100)).await;
        }
    }

    /// Starts a server at the same address.
    pub(crate) async fn join(&mut self) {
        let server = Server::builder(&self.store).build();
        self.serving = Some(
            server
                .listen([Listen::Loopback(self.address)])
                .await
                .unwrap(),
        );
    }

    /// Ends everything, and fails if the browser has complained.
    pub(crate) async fn close(mut self) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.is_empty(), "{complaints:?}");
        self.cut().await;
        if let Some(runner) = self.runner.take() {
            runner.shutdown().await;
        }
    }
}
