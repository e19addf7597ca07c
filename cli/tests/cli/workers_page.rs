//! The worker of docs/reference/workers.md, `examples/worker.sh`, runs tasks, also while its server is killed and another one takes its place.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fs,
    net::TcpListener,
    process::{Command, Stdio},
};

use crate::live::{Place, Running, until};
use nix::sys::signal::Signal;

/// The handler: notes that it has begun, waits until the test lets it end, and prints the text in capitals.
const HANDLER: &str = r#"
text=$(jq -r .text)
echo "$text" >>begun
until [ -e go ]; do sleep 0.05; done
printf '%s' "$text" | jq -R '{text: ascii_upcase, token: (env.TOKEN != null)}'
"#;

/// Returns the script that the page names.
fn script() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/worker.sh");
    fs::read_to_string(script).unwrap()
}

/// Starts a server, and waits until it listens.
fn serve(place: &Place, address: &str) -> Running {
    let mut command = place.windlass(&["serve", "--no-socket", "--listen", address]);
    let log = fs::File::create(place.path("serve.log")).unwrap();
    command.stdout(Stdio::null()).stderr(log);
    let running = Running::of(command.spawn().unwrap());
    until("the server listens", || {
        place.read("serve.log").contains("listening")
    });
    running
}

fn begun(place: &Place) -> Vec<String> {
    let text = fs::read_to_string(place.path("begun")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_worker_of_the_page_survives_its_server_and_runs_each_task_once() {
    for tool in ["curl", "jq", "setsid"] {
        let found = Command::new(tool).arg("--version").output();
        assert!(found.is_ok(), "the page needs {tool}; install it");
    }
    let script = script();
    assert!(script.lines().count() <= 75, "about 70 lines");
    let place = Place::new();
    place.write("worker.sh", &script);
    place.write("handler.sh", HANDLER);
    let (code, token, err) =
        place.run(&["token", "new", "sh", "--role", "work", "--kind", "capitals"]);
    assert_eq!(code, 0, "{err}");
    for id in ["one", "two", "three"] {
        let props = format!(r#"{{"text":"{id}"}}"#);
        let (code, _, err) = place.run(&["submit", "capitals", "--id", id, "--props", &props]);
        assert_eq!(code, 0, "{err}");
    }
    // A free port: the second server has the one of the first.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    drop(port);
    let server = serve(&place, &address);
    let folder = place.path("worker.sh");
    let mut worker = Command::new("sh");
    worker
        .args(["worker.sh", "capitals", "sh", "handler.sh"])
        .current_dir(folder.parent().unwrap())
        .env("URL", format!("http://{address}"))
        .env("TOKEN", token.trim_end())
        .env("TMPDIR", folder.parent().unwrap())
        .stdout(Stdio::null())
        .stderr(fs::File::create(place.path("worker.log")).unwrap());
    let worker = Running::of(worker.spawn().unwrap());
    until("the first task runs", || begun(&place).len() == 1);
    let fence = place.get(&begun(&place)[0])["fence"].clone();

    server.kill();
    let server = serve(&place, &address);
    place.write("go", "");
    let (code, _, err) = place.run(&["wait", "one", "two", "three", "--timeout", "60s"]);
    assert_eq!(code, 0, "{err} {}", place.read("worker.log"));
    for id in ["one", "two", "three"] {
        let task = place.get(id);
        let text = task.to_string();
        let result = format!(r#""text":"{}""#, id.to_uppercase());
        assert!(text.contains(&result), "{text}");
        assert!(text.contains(r#""token":false"#), "{text}");
    }
    let mut ran = begun(&place);
    assert_eq!(
        place.get(&ran[0])["fence"],
        fence,
        "the death of the server has moved no claim: {}",
        place.read("worker.log")
    );
    ran.sort();
    assert_eq!(ran, ["one", "three", "two"], "each task ran once");

    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0), "{}", place.read("worker.log"));
    let (_, nodes, _) = place.run(&["nodes", "-o", "json"]);
    assert!(!nodes.contains("worker.sh"), "the worker has left: {nodes}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(), Some(0));
}
