//! Servers for the measurements: each on free ports of the loopback, gone when it is dropped.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::support::Setting;

/// The members of one cluster.
pub(crate) struct Cluster {
    members: Vec<Child>,
    clients: Vec<u16>,
    _folder: tempfile::TempDir,
}

fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    bound.iter().map(port).collect()
}

impl Cluster {
    /// Starts this many members and waits until they answer.
    pub(crate) fn start(setting: &Setting, members: usize) -> Self {
        let folder = setting.folder();
        let (clients, peers) = (free_ports(members), free_ports(members));
        let names = peers.iter().enumerate();
        let all: Vec<String> = names
            .map(|(n, peer)| format!("m{n}=http://127.0.0.1:{peer}"))
            .collect();
        let all = all.join(",");
        let program = std::env::var_os("ETCD_BIN").map_or("etcd".into(), PathBuf::from);
        let mut started = Vec::new();
        for (n, (client, peer)) in clients.iter().zip(&peers).enumerate() {
            let log = std::fs::File::create(folder.path().join(format!("log{n}"))).unwrap();
            let (client, peer) = (
                format!("http://127.0.0.1:{client}"),
                format!("http://127.0.0.1:{peer}"),
            );
            let child = Command::new(&program)
                .args(["--name", &format!("m{n}"), "--data-dir"])
                .arg(folder.path().join(format!("data{n}")))
                .args(["--listen-client-urls", &client])
                .args(["--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &all])
                // As docs/operate/operations-etcd.md advises.
                .args(["--snapshot-count", "5000"])
                .args(["--quota-backend-bytes", "8000000000"])
                .env_remove("ETCD_BIN")
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .expect("etcd can be started: put it into the PATH or set ETCD_BIN");
            started.push(child);
        }
        let cluster = Self {
            members: started,
            clients,
            _folder: folder,
        };
        while !cluster.get("/health").contains("\"true\"") {
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        let endpoint = |port: &u16| format!("127.0.0.1:{port}");
        self.clients.iter().map(endpoint).collect()
    }

    pub(crate) fn url(&self, namespace: &str) -> String {
        format!("etcd://{}/{namespace}", self.endpoints().join(","))
    }

    fn get(&self, path: &str) -> String {
        let mut text = String::new();
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.clients[0])) else {
            return text;
        };
        let request = format!("GET {path} HTTP/1.0\r\nHost: etcd\r\n\r\n");
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut text);
        text
    }

    /// The sum of the first member's counters that begin so.
    pub(crate) fn count(&self, counter: &str) -> u64 {
        let text = self.get("/metrics");
        let lines = text.lines().filter(|line| line.starts_with(counter));
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        lines.map(value).sum::<f64>() as u64
    }

    pub(crate) async fn raw(&self) -> etcd_client::Client {
        etcd_client::Client::connect(self.endpoints(), None)
            .await
            .unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
