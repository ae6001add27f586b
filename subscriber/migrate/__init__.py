"""What a migration needs around the rows, from its check to its cutover.

::

    check_migration      asks publisher and target, changes nothing; warnings after CREATE SUBSCRIPTION
      ├─ check_publisher     facts of the server, the role and the published tables ─▶ findings
      ├─ check_target        facts of the target, its tables and of this machine    ─▶ findings
      └─ scan_values         values that the target cannot hold                     ─▶ findings
    findings             what a finding is
    schema               what the target lacks, see :mod:`subscriber.migrate.schema`
    cutover              the steps of a switch-over, see :mod:`subscriber.migrate.cutover`

The functions that judge facts are pure, so that each finding is tested without a server that has
the problem. *Rejected:* a dry run of CREATE SUBSCRIPTION that is rolled back. A replication slot
cannot be rolled back, and the first error would hide all others.
"""
