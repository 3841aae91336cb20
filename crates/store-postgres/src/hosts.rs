//! The hosts of an address, each for itself.
//!
//! The driver tries them one after the other too, but knows a limit for the way there only: a host that takes the
//! connection and then says nothing would keep us from the others for ever.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::Config;
use tokio_postgres::config::{Host as Name, LoadBalanceHosts};

use crate::passfile::{Login, Passfile};

pub(crate) struct Host {
    /// Host and port, as people write them.
    pub place: String,
    pub config: Config,
}

pub(crate) struct Hosts {
    all: Vec<Host>,
    /// The one that let us in last.
    last: AtomicUsize,
    shuffled: bool,
}

impl Hosts {
    /// With the passwords of a file, where the address has none.
    pub(crate) fn new(config: &Config, passwords: Option<&Passfile>) -> Hosts {
        let (names, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let (count, ports) = (names.len().max(addresses.len()), config.get_ports());
        let all = (0..count).map(|index| {
            let (name, address) = (names.get(index), addresses.get(index));
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            let mut one = without_hosts(config);
            one.port(port);
            let mut place = String::new();
            if let Some(address) = address {
                one.hostaddr(*address);
                place = address.to_string();
            }
            match name {
                Some(Name::Tcp(name)) => {
                    one.host(name.as_str());
                    place.clone_from(name);
                }
                Some(Name::Unix(path)) => {
                    one.host_path(path);
                    place = path.display().to_string();
                }
                None => {}
            }
            if config.get_password().is_none()
                && let Some(passwords) = passwords
            {
                let user = config.get_user().unwrap_or_default();
                let database = config.get_dbname().unwrap_or(user);
                if let Some(password) = passwords.password(&Login { host: &place, port, database, user }) {
                    one.password(password);
                }
            }
            Host { place: format!("{place}:{port}"), config: one }
        });
        let shuffled = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
        Hosts { all: all.collect(), last: AtomicUsize::new(0), shuffled }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn places(&self) -> String {
        self.all.iter().map(|host| host.place.as_str()).collect::<Vec<_>>().join(",")
    }

    /// In the order in which they are to be tried: from the last that was good, or from any.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = (usize, &Host)> {
        let first =
            if self.shuffled { rand::random::<u32>() as usize } else { self.last.load(Ordering::Relaxed) };
        let count = self.all.len();
        let turn = (0..count).map(move |step| (first % count + step) % count);
        turn.filter_map(|index| Some((index, self.all.get(index)?)))
    }

    pub(crate) fn is_good(&self, index: usize) {
        self.last.store(index, Ordering::Relaxed);
    }
}

/// The same in all but the hosts, which the driver lets nobody take out.
fn without_hosts(config: &Config) -> Config {
    let mut same = Config::new();
    if let Some(user) = config.get_user() {
        same.user(user);
    }
    if let Some(password) = config.get_password() {
        same.password(password);
    }
    if let Some(dbname) = config.get_dbname() {
        same.dbname(dbname);
    }
    if let Some(options) = config.get_options() {
        same.options(options);
    }
    if let Some(name) = config.get_application_name() {
        same.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        same.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        same.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        same.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        same.keepalives_retries(retries);
    }
    same.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding());
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_port_and_all_that_is_not_about_hosts() {
        let check = |address: &str, expected: &[&str]| {
            let config = crate::address::parse(address).unwrap().config;
            let hosts = Hosts::new(&config, None);
            let places: Vec<&str> = hosts.in_turn().map(|(_, host)| host.place.as_str()).collect();
            assert_eq!(places, expected, "{address}");
            for (_, host) in hosts.in_turn() {
                // Whatever the driver learns one day is not to be left out here.
                let mut again = without_hosts(&host.config);
                host.config.get_hosts().iter().for_each(|name| match name {
                    Name::Tcp(name) => _ = again.host(name.as_str()),
                    Name::Unix(path) => _ = again.host_path(path),
                });
                host.config.get_hostaddrs().iter().for_each(|address| _ = again.hostaddr(*address));
                host.config.get_ports().iter().for_each(|port| _ = again.port(*port));
                assert_eq!(again, host.config, "{address}");
            }
            let mut one = config.clone();
            one.load_balance_hosts(LoadBalanceHosts::Disable);
            if hosts.count() == 1 && !one.get_ports().is_empty() {
                assert_eq!(hosts.all[0].config, one, "{address}");
            }
        };
        check("postgres://u@h/d", &["h:5432"]);
        check(
            "postgres://u:p@h:1/d?options=-c%20x%3D1&application_name=n&connect_timeout=3&tcp_user_timeout=4\
             &keepalives=0&keepalives_idle=5&keepalives_interval=6&keepalives_retries=7&sslmode=require\
             &channel_binding=require&sslnegotiation=direct",
            &["h:1"],
        );
        check("postgres://u@h:1,i:2/d", &["h:1", "i:2"]);
        check("host=h,i port=7 user=u", &["h:7", "i:7"]);
        check("host=/tmp,i hostaddr=127.0.0.1,127.0.0.2 port=7,8 user=u", &["/tmp:7", "i:8"]);
        check("hostaddr=127.0.0.1 user=u", &["127.0.0.1:5432"]);
    }

    #[test]
    fn the_last_good_one_is_tried_first() {
        let hosts = Hosts::new(&crate::address::parse("postgres://u@a,b,c/d").unwrap().config, None);
        let turn = || hosts.in_turn().map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!(turn(), [0, 1, 2]);
        hosts.is_good(1);
        assert_eq!(turn(), [1, 2, 0]);
    }
}
