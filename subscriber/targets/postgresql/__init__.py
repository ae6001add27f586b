"""PostgreSQL as a target: schemas, native types, COPY, prepared transactions, replication
origins.
"""
