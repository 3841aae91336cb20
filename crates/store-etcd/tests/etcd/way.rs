//! A way to etcd on which nothing comes back for a while, as to a process that stands still.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Way {
    pub address: String,
    /// Whether etcd's answers are passed on.
    pub open: watch::Sender<bool>,
}

impl Way {
    pub async fn to(etcd: String) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open = watch::Sender::new(true);
        let passing = open.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, etcd.clone(), passing.subscribe()));
            }
        });
        Way { address, open }
    }
}

async fn pass(client: TcpStream, etcd: String, mut open: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(etcd).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answering = async move {
        let mut buffer = vec![0; 64 << 10];
        while open.wait_for(|open| *open).await.is_ok() {
            let Ok(length @ 1..) = from_server.read(&mut buffer).await else { return };
            if to_client.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = answering => {}
    }
}
