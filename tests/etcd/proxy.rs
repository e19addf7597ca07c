//! A proxy that can be cut: a partition between one store and its server.

use std::sync::Arc;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

pub(crate) struct Proxy {
    address: String,
    open: Arc<watch::Sender<bool>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open = Arc::new(watch::Sender::new(true));
        let switch = open.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                let (server, mut state) = (server.clone(), switch.subscribe());
                tokio::spawn(async move {
                    // A connection made while it is cut ends at once.
                    if !*state.borrow() {
                        return;
                    }
                    let Ok(mut outside) = TcpStream::connect(server).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut inside, &mut outside) => {}
                        _ = state.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Self {
            address,
            open,
            accepting,
        }
    }

    pub(crate) fn url(&self, namespace: &str) -> String {
        format!("etcd://{}/{namespace}", self.address)
    }

    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
