//! Questions for names from a sandbox, passed on to the nameservers of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

const CONFIGURATION: &str = "/etc/resolv.conf";
/// For one nameserver.
const PATIENCE: Duration = Duration::from_secs(5);
/// Nameservers that are asked, as in the system's resolver.
const MOST_SERVERS: usize = 3;
/// Questions of one sandbox at once. Further ones get no answer and are asked again.
const MOST_QUESTIONS: usize = 32;
const LARGEST: usize = 65_535;
const HEADER: usize = 12;

/// What of the configuration of this machine's resolver holds inside as well.
pub(crate) fn resolver_options() -> String {
    let text = std::fs::read_to_string(CONFIGURATION).unwrap_or_default();
    let kept = |line: &&str| ["search", "domain", "options"].iter().any(|word| line.starts_with(word));
    text.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

fn nameservers(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = servers.filter_map(|server| server.trim().parse::<IpAddr>().ok());
    addresses.take(MOST_SERVERS).map(|address| SocketAddr::new(address, 53)).collect()
}

/// Answers questions that come as datagrams, for ever.
pub(crate) async fn serve(socket: UdpSocket) {
    let socket = Arc::new(socket);
    let turns = Arc::new(Semaphore::new(MOST_QUESTIONS));
    let mut asking = JoinSet::new();
    let mut question = vec![0; LARGEST];
    loop {
        let Ok((length, asker)) = socket.recv_from(&mut question).await else {
            // Such as an answer to one who has gone; never several without a question in between.
            tokio::task::yield_now().await;
            continue;
        };
        while asking.try_join_next().is_some() {}
        let Ok(turn) = turns.clone().try_acquire_owned() else { continue };
        let (socket, question) = (socket.clone(), question[..length].to_vec());
        asking.spawn(async move {
            let _turn = turn;
            let answer = answer(&question, false).await;
            if !answer.is_empty() {
                let _ = socket.send_to(&answer, asker).await;
            }
        });
    }
}

/// Answers questions that come in a stream, until it ends.
pub(crate) async fn serve_stream(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut question = vec![0; usize::from(timeout(PATIENCE * 2, stream.read_u16()).await??)];
        timeout(PATIENCE, stream.read_exact(&mut question)).await??;
        let answer = answer(&question, true).await;
        let length = u16::try_from(answer.len()).map_err(std::io::Error::other)?;
        stream.write_u16(length).await?;
        stream.write_all(&answer).await?;
    }
}

/// Of the first nameserver that has one; otherwise that there is a failure.
async fn answer(question: &[u8], stream: bool) -> Vec<u8> {
    if question.len() < HEADER {
        return Vec::new();
    }
    let configuration = tokio::fs::read_to_string(CONFIGURATION).await.unwrap_or_default();
    for server in nameservers(&configuration) {
        let asked = async {
            if stream { by_stream(server, question).await } else { by_datagram(server, question).await }
        };
        match timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => tracing::debug!(%server, %error, "nameserver does not answer"),
            Err(_) => tracing::debug!(%server, "nameserver does not answer in time"),
        }
    }
    failure(question)
}

async fn by_datagram(server: SocketAddr, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; LARGEST];
    loop {
        let length = socket.recv(&mut answer).await?;
        // Another one's answer, or a forged one.
        if length >= HEADER && answer[..2] == question[..2] {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn by_stream(server: SocketAddr, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_u16(u16::try_from(question.len()).map_err(std::io::Error::other)?).await?;
    stream.write_all(question).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// `SERVFAIL`: the question again, marked as an answer that failed.
fn failure(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2] |= 0x80;
    answer[3] = (answer[3] & 0xf0) | 2;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations() {
        let text = "# x\nsearch a.b\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 \nnameserver wrong\n";
        let found: Vec<String> = nameservers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53"]);
    }

    #[test]
    fn failures_are_answers() {
        let answer = failure(&[0xab, 0xcd, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&answer[..4], [0xab, 0xcd, 0x81, 2]);
    }
}
