# Endpoints in an existing VPC: private subnets reach S3, Glue and the other services without a NAT gateway.

data "aws_vpc_endpoint_service" "this" {
  for_each = var.vpc_endpoints == null ? toset([]) : var.vpc_endpoints.services

  service      = each.key
  service_type = "Interface"
}

data "aws_vpc_endpoint_service" "s3" {
  count = var.vpc_endpoints == null ? 0 : 1

  service      = "s3"
  service_type = "Gateway"
}

resource "aws_vpc_endpoint" "s3" {
  count = var.vpc_endpoints == null ? 0 : 1

  vpc_id            = var.vpc_endpoints.vpc_id
  service_name      = data.aws_vpc_endpoint_service.s3[0].service_name
  vpc_endpoint_type = "Gateway"
  route_table_ids   = var.vpc_endpoints.route_table_ids
  tags              = merge(var.tags, { Name = "${var.name}-s3" })
}

resource "aws_vpc_endpoint" "this" {
  for_each = var.vpc_endpoints == null ? toset([]) : var.vpc_endpoints.services

  vpc_id              = var.vpc_endpoints.vpc_id
  service_name        = data.aws_vpc_endpoint_service.this[each.key].service_name
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = var.vpc_endpoints.subnet_ids
  security_group_ids  = var.vpc_endpoints.security_group_ids
  tags                = merge(var.tags, { Name = "${var.name}-${each.key}" })
}
